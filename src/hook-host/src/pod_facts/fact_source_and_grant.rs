//! The facts about the pod that a call may read: where they are, and the grant.

use std::fmt;
use std::sync::Arc;

use super::{DownwardApiFiles, PodConfig, PodFactEntry, PodGrant, PodLayer, PodPattern};

/// The source of the answers to questions about the pod.
#[derive(Clone, Default)]
pub(crate) enum PodFactSource {
    /// This host has no facts.
    #[default]
    None,
    /// The files of the pod.
    Files(Arc<DownwardApiFiles>),
    /// The answers of a record, in the order of its questions.
    Recorded(Arc<Vec<PodFactEntry>>),
}

/// The facts about the pod that a call may read. The default has no facts.
#[derive(Clone, Default)]
pub struct PodAccess {
    pub(crate) facts: PodFactSource,
    pub(crate) grant: Arc<PodGrant>,
}

impl PodAccess {
    /// Access to the facts that `patterns` match, in the files of `config`.
    #[must_use]
    pub fn new(config: PodConfig, patterns: Vec<PodPattern>) -> Self {
        let wishes = PodLayer {
            patterns,
            origin: "wishes.pod in its description".to_owned(),
        };
        let grant = PodGrant {
            layers: vec![wishes],
            recorded: Vec::new(),
        };
        Self {
            facts: PodFactSource::Files(Arc::new(DownwardApiFiles::new(config))),
            grant: Arc::new(grant),
        }
    }
}

impl fmt::Debug for PodAccess {
    /// Omits the facts, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodAccess")
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}
