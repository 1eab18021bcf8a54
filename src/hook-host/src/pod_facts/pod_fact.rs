//! A fact about the pod, which is an annotation, a label or a network, and its name.

use std::fmt;

use super::pod_pattern::MAX_PATTERN_BYTES;
use crate::printable::is_printable;

/// Maximum length in bytes of the key of an annotation or label, and of a network's name, so that a pattern can contain
/// the full name of every fact. A key of Kubernetes has at most 317.
pub(super) const MAX_KEY_BYTES: usize = MAX_PATTERN_BYTES - "network-status/".len();

/// A fact about the pod. `Display` prints the name of the fact, which patterns match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodFact {
    Annotation(String),
    Label(String),
    /// `NAMESPACE/NAME` of a NetworkAttachmentDefinition.
    Network(String),
    DefaultNetwork,
    NetworkInfo,
}

impl PodFact {
    /// The fact, if patterns can match its name. The error contains the reason.
    pub(super) fn validated(self) -> Result<Self, String> {
        self.check_length()?;
        let name = self.to_string();
        match name.contains(|c: char| !is_printable(c) || c == '*') {
            true => Err(format!("{name:?} is not a name of a fact")),
            false => Ok(self),
        }
    }

    /// Refuses a key that is too long, without a copy of the key. The error contains the reason.
    pub(super) fn check_length(&self) -> Result<(), String> {
        let (Self::Annotation(key) | Self::Label(key) | Self::Network(key)) = self else {
            return Ok(());
        };
        match key.len() {
            length if length > MAX_KEY_BYTES => Err(format!(
                "a key of {length} bytes, more than {MAX_KEY_BYTES}"
            )),
            _ => Ok(()),
        }
    }

    /// Whether the value may be a password or a key.
    pub(super) fn may_be_secret(&self) -> bool {
        matches!(self, Self::Annotation(_))
    }
}

impl fmt::Display for PodFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(key) => write!(f, "annotations/{key}"),
            Self::Label(key) => write!(f, "labels/{key}"),
            Self::Network(name) => write!(f, "network-status/{name}"),
            Self::DefaultNetwork => f.write_str("default-network"),
            Self::NetworkInfo => f.write_str("network-info"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_pattern_can_match_are_refused() {
        for key in [
            "a\nb",
            "*",
            "\u{85}",
            "a\u{202e}b",
            "a\u{2028}b",
            "a\u{200b}",
        ] {
            assert!(PodFact::Annotation(key.to_owned()).validated().is_err());
        }
        let label = |length| PodFact::Label("a".repeat(length)).validated();
        assert!(label(MAX_KEY_BYTES + 1).is_err());
        assert!(label(MAX_KEY_BYTES).is_ok());
        assert!(PodFact::Label("a.example/b".to_owned()).validated().is_ok());
    }
}
