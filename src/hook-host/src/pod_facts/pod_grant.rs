//! The facts that a hook may read, and those that records keep.

use super::{PodFact, PodPattern};

/// The grant of a hook: a fact is granted if every layer matches it. Without layers no fact is granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodGrant {
    /// The layers; the first has the module's wishes.
    pub(crate) layers: Vec<PodLayer>,
    /// Patterns of the facts that records keep.
    pub(crate) recorded: Vec<PodPattern>,
}

/// The patterns of one origin.
#[derive(Debug, Clone)]
pub(crate) struct PodLayer {
    pub(crate) patterns: Vec<PodPattern>,
    /// The origin for errors, such as `allow.pod of policy.yaml:7:10`.
    pub(crate) origin: String,
}

impl PodGrant {
    /// Refuses a fact that a layer does not match. The error names the layer's origin.
    pub(super) fn check(&self, fact: &PodFact) -> Result<(), String> {
        if self.layers.is_empty() {
            return Err(format!("{fact} is not granted to this hook"));
        }
        let name = fact.to_string();
        let refusing = self
            .layers
            .iter()
            .find(|layer| !layer.patterns.iter().any(|pattern| pattern.matches(&name)));
        match refusing {
            None => Ok(()),
            Some(layer) => Err(format!(
                "{name} is not granted to this hook: {} would have to contain {name:?}",
                layer.origin
            )),
        }
    }

    /// Whether records keep the fact of this name.
    pub(super) fn records(&self, name: &str) -> bool {
        self.recorded.iter().any(|pattern| pattern.matches(name))
    }

    /// The patterns that the module declares.
    pub(crate) fn wishes(&self) -> &[PodPattern] {
        self.layers
            .first()
            .map_or(&[], |layer| layer.patterns.as_slice())
    }
}
