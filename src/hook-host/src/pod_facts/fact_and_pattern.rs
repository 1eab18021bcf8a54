//! The names of facts, and the patterns that grant them.

use std::fmt;

use serde::Serialize;

use crate::printable::is_printable;

/// The longest name of a fact and the longest pattern, in bytes. A key of Kubernetes has at most 317.
const MAX_BYTES: usize = 512;
/// The kinds of facts, with the part that is named.
const KINDS: &str =
    "annotations/KEY, labels/KEY, network-status/NAMESPACE/NAME, default-network, network-info";

/// A fact about the pod. `Display` prints the name that patterns match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodFact {
    Annotation(String),
    Label(String),
    /// `NAMESPACE/NAME` of a NetworkAttachmentDefinition.
    Network(String),
    DefaultNetwork,
    NetworkInfo,
}

/// A pattern of facts: the name of a fact, in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PodPattern(String);

/// Why a text is no [`PodPattern`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PodPatternError {
    /// It is longer than any name; the length in bytes.
    #[error("a pattern of {0} bytes, more than {MAX_BYTES}")]
    TooLong(usize),
    /// No fact has such a name.
    #[error(
        "{0:?} is not a fact about a pod; there are {KINDS}, and * stands for any characters of KEY or NAME"
    )]
    Unknown(String),
}

impl PodFact {
    /// The fact, if its name is one that patterns can name. The error says what is wrong.
    pub(crate) fn checked(self) -> Result<Self, String> {
        self.check_length()?;
        let name = self.to_string();
        match name.contains(|c: char| !is_printable(c) || c == '*') {
            true => Err(format!("{name:?} is not a name of a fact")),
            false => Ok(self),
        }
    }

    /// Refuses a name that is longer than any of a fact, without a copy of it. The error says what is wrong.
    pub(crate) fn check_length(&self) -> Result<(), String> {
        let (Self::Annotation(key) | Self::Label(key) | Self::Network(key)) = self else {
            return Ok(());
        };
        match key.len() {
            length if length > MAX_BYTES => {
                Err(format!("a name of {length} bytes, more than {MAX_BYTES}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether its value may be a password or a key.
    pub(crate) fn may_be_secret(&self) -> bool {
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

impl PodPattern {
    /// Parses a pattern. The error says what a pattern is.
    pub fn parse(text: &str) -> Result<Self, PodPatternError> {
        if text.len() > MAX_BYTES {
            return Err(PodPatternError::TooLong(text.len()));
        }
        let lists = ["annotations/", "labels/", "network-status/"];
        let mut rests = lists.iter().filter_map(|list| text.strip_prefix(list));
        let is_known = ["default-network", "network-info"].contains(&text)
            || rests.any(|rest| !rest.is_empty());
        if is_known && text.chars().all(is_printable) {
            return Ok(Self(text.to_owned()));
        }
        Err(PodPatternError::Unknown(text.to_owned()))
    }

    /// The pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names the fact `name`, such as `annotations/KEY`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }
}

impl fmt::Display for PodPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Matches with `*` for any bytes. It goes back to the last `*` only, so it takes at most the product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((at, from)) = star {
            (p, t) = (at + 1, from + 1);
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("ab", "a", false),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("a*b*c", "a-b-b-c", true),
            ("*/net", "ns/net", true),
            ("a**", "a", true),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        }
        let slow = ("*a".repeat(200) + "b", "a".repeat(500));
        assert!(!matches(slow.0.as_bytes(), slow.1.as_bytes()));
    }

    #[test]
    fn patterns_name_a_kind() {
        for known in [
            "annotations/a.example/b",
            "labels/*",
            "network-status/*/net",
            "default-network",
            "network-info",
        ] {
            assert_eq!(PodPattern::parse(known).unwrap().as_str(), known);
        }
        for wrong in [
            "",
            "*",
            "annotations",
            "annotations/",
            "env/X",
            "labels/a\nb",
        ] {
            let error = PodPattern::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("annotations/KEY"), "{error}");
        }
        assert!(PodPattern::parse(&format!("labels/{}", "a".repeat(600))).is_err());
    }

    #[test]
    fn a_kind_is_not_matched_by_a_star_of_another() {
        let labels = PodPattern::parse("labels/*").unwrap();
        assert!(labels.matches("labels/a/b"));
        assert!(!labels.matches("annotations/a"));
        assert!(!labels.matches("network-info"));
    }

    #[test]
    fn keys_that_no_pattern_can_name_are_refused() {
        for key in [
            "a\nb",
            "*",
            "\u{85}",
            "a\u{202e}b",
            "a\u{2028}b",
            "a\u{200b}",
        ] {
            assert!(PodFact::Annotation(key.to_owned()).checked().is_err());
        }
        assert!(PodFact::Label("a".repeat(513)).checked().is_err());
        assert!(PodFact::Label("a".repeat(512)).checked().is_ok());
        assert!(PodFact::Label("a.example/b".to_owned()).checked().is_ok());
    }
}
