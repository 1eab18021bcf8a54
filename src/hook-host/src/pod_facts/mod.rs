//! Facts about the pod: annotations, labels and networks, which hooks read through the WIT interface `pod`.
//!
//! The facts come from the files of Kubernetes' downward API ([`PodFiles`]) and are read again for every query, so that a
//! boot sees what the pod has then. A replay answers from its record. What may be read is the intersection of the module's
//! wishes, its `hook.yaml` and the operator's policy ([`PodGrant`]).
//!
//! `fact_name` (names and patterns), `downward_api_format` and `network_status` (Multus' annotation) are pure.

mod downward_api_files;
mod downward_api_format;
mod fact_grant;
mod fact_name;
pub(crate) mod network_status;
mod pod_fact_reader;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use downward_api_files::PodFiles;
pub use downward_api_format::render as render_downward_api;
pub(crate) use fact_grant::{PodGrant, PodLayer};
pub(crate) use fact_name::PodFact;
pub use fact_name::{PodPattern, PodPatternError};
pub(crate) use network_status::Network;
pub(crate) use pod_fact_reader::{CallClock, PodFactReader, PodFacts};
pub use pod_fact_reader::{FactError, PodAccess, PodFactEntry};

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
