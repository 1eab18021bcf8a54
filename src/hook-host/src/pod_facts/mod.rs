//! Facts about the pod: annotations, labels and networks, which hooks read through the WIT interface `pod`.
//!
//! The facts come from the files of Kubernetes' downward API ([`PodFiles`]) and are read again for every query, so that a
//! boot sees what the pod has then. A replay answers from its record. What may be read is the intersection of the module's
//! wishes, its `hook.yaml` and the operator's policy ([`PodGrant`]).
//!
//! `fact_and_pattern` (names and patterns), `downward_api_format` and `network_status` (Multus' annotation) are pure.

mod call_clock;
mod downward_api_files;
mod downward_api_format;
mod fact_and_pattern;
mod fact_grant;
pub(crate) mod network_status;
mod pod_fact_reader;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use call_clock::CallClock;
pub(crate) use downward_api_files::PodFiles;
pub use downward_api_format::render as render_downward_api;
pub(crate) use fact_and_pattern::PodFact;
pub use fact_and_pattern::{PodPattern, PodPatternError};
pub(crate) use fact_grant::{PodGrant, PodLayer};
pub(crate) use network_status::Network;
pub use pod_fact_reader::{FactError, PodAccess, PodFactEntry};
pub(crate) use pod_fact_reader::{PodFactReader, PodFactSource};

/// How long a call waits for facts that are not there yet, unless it is configured.
const WAIT: Duration = Duration::from_secs(5);

/// Where facts about the pod are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodConfig {
    /// The directory with the downward API's files `annotations` and `labels`, or `network-info`; `None` if there is none.
    pub dir: Option<PathBuf>,
    /// How long a call waits for facts that are not there yet. 5 s.
    pub wait: Duration,
}

/// No facts.
impl Default for PodConfig {
    fn default() -> Self {
        Self {
            dir: None,
            wait: WAIT,
        }
    }
}
