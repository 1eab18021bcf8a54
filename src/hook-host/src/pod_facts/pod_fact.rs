//! A fact about the pod, and its name.

use std::fmt;

use crate::printable::is_printable;

/// Maximum length in bytes of a fact's name, and of a pattern. A key of Kubernetes has at most 317.
pub(super) const MAX_NAME_BYTES: usize = 512;

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

    /// Refuses a name that is too long, without a copy of the name. The error contains the reason.
    pub(super) fn check_length(&self) -> Result<(), String> {
        let (Self::Annotation(key) | Self::Label(key) | Self::Network(key)) = self else {
            return Ok(());
        };
        match key.len() {
            length if length > MAX_NAME_BYTES => Err(format!(
                "a name of {length} bytes, more than {MAX_NAME_BYTES}"
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
        assert!(PodFact::Label("a".repeat(513)).validated().is_err());
        assert!(PodFact::Label("a".repeat(512)).validated().is_ok());
        assert!(PodFact::Label("a.example/b".to_owned()).validated().is_ok());
    }
}
