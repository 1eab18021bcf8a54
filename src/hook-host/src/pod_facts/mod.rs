//! Facts about the pod: annotations, labels and networks, which hooks read through the WIT interface `pod`.
//!
//! The facts come from the files of Kubernetes' downward API ([`DownwardApiFiles`]), which are read again for every
//! question, because annotations can appear while a VM boots. A replay answers from its record. A hook may read the
//! intersection of the module's wishes, its `hook.yaml` and the operator's policy ([`PodGrant`]).
//!
//! `pod_fact`, `pod_pattern`, `downward_api_format` and `network_status` (Multus' annotation) are pure.

mod call_deadline;
mod downward_api_files;
mod downward_api_format;
mod fact_source_and_grant;
pub(crate) mod network_status;
mod pod_fact;
mod pod_fact_reader;
mod pod_grant;
mod pod_pattern;
mod question_and_answer;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use call_deadline::CallDeadline;
pub(crate) use downward_api_files::DownwardApiFiles;
pub use downward_api_format::render as render_downward_api;
pub use fact_source_and_grant::PodAccess;
pub(crate) use fact_source_and_grant::PodFactSource;
pub(crate) use network_status::Network;
pub(crate) use pod_fact::PodFact;
pub(crate) use pod_fact_reader::PodFactReader;
pub(crate) use pod_grant::{PodGrant, PodLayer};
pub use pod_pattern::{PodPattern, PodPatternError};
pub use question_and_answer::{FactError, PodFactEntry};

/// The default of [`PodConfig::wait`].
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// Where facts about the pod are read, and how long a call waits for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodConfig {
    /// The directory with the downward API's files `annotations` and `labels`, or `network-info`; `None` if there is
    /// none.
    pub dir: Option<PathBuf>,
    /// How long a call waits for facts that the pod does not have yet; 5 s by default.
    pub wait: Duration,
}

/// The default has no directory, so no facts.
impl Default for PodConfig {
    fn default() -> Self {
        Self {
            dir: None,
            wait: DEFAULT_WAIT,
        }
    }
}
