//! Which facts a hook may read, and which of them records keep.

use super::{PodFact, PodPattern};

/// The grant of a hook: every layer must contain a fact. Without layers nothing is granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodGrant {
    /// The wishes first.
    pub(crate) layers: Vec<PodLayer>,
    /// Facts that records keep.
    pub(crate) recorded: Vec<PodPattern>,
}

/// The patterns of one origin.
#[derive(Debug, Clone)]
pub(crate) struct PodLayer {
    pub(crate) patterns: Vec<PodPattern>,
    /// `allow.pod of policy.yaml:7:10`.
    pub(crate) origin: String,
}

impl PodGrant {
    /// The error names the list that lacks the fact.
    pub(super) fn check(&self, fact: &PodFact) -> Result<(), String> {
        if self.layers.is_empty() {
            return Err(format!("{fact} is not granted to this hook"));
        }
        let name = fact.to_string();
        let refusing = self
            .layers
            .iter()
            .find(|layer| !layer.patterns.iter().any(|one| one.matches(&name)));
        match refusing {
            None => Ok(()),
            Some(layer) => Err(format!(
                "{name} is not granted to this hook: {} would have to contain {name:?}",
                layer.origin
            )),
        }
    }

    pub(super) fn records(&self, name: &str) -> bool {
        self.recorded.iter().any(|pattern| pattern.matches(name))
    }

    /// What the module declares.
    pub(crate) fn wishes(&self) -> &[PodPattern] {
        self.layers
            .first()
            .map_or(&[], |layer| layer.patterns.as_slice())
    }
}
