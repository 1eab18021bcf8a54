//! Patterns of the names of facts, which grant facts.

use std::fmt;

use serde::Serialize;

use crate::printable::is_printable;

/// Maximum length in bytes of a pattern.
pub(super) const MAX_PATTERN_BYTES: usize = 512;

/// A pattern of facts: the name of a fact, in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PodPattern(String);

/// Why a text is not a [`PodPattern`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PodPatternError {
    /// The text is longer than any name; its length in bytes.
    #[error("a pattern of {0} bytes, more than {MAX_PATTERN_BYTES}")]
    TooLong(usize),
    /// The name has a kind that takes a key or a name, and ends there.
    #[error("{0:?} ends without its KEY or NAME; there are {kinds}", kinds = PodPattern::KINDS)]
    EmptyKey(String),
    /// No fact has such a name.
    #[error(
        "{0:?} is not a fact about a pod; there are {kinds}, and * stands for any characters of KEY or NAME",
        kinds = PodPattern::KINDS
    )]
    Unknown(String),
}

impl PodPattern {
    /// The names of all kinds of facts.
    pub(crate) const KINDS: &str =
        "annotations/KEY, labels/KEY, network-status/NAMESPACE/NAME, default-network, network-info";

    /// Parses a pattern. The error lists the kinds of facts.
    pub fn parse(text: &str) -> Result<Self, PodPatternError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(PodPatternError::TooLong(text.len()));
        }
        let prefixes = ["annotations/", "labels/", "network-status/"];
        if prefixes.contains(&text) {
            return Err(PodPatternError::EmptyKey(text.to_owned()));
        }
        let is_known = ["default-network", "network-info"].contains(&text)
            || prefixes.iter().any(|prefix| text.starts_with(prefix));
        if is_known && text.chars().all(is_printable) {
            return Ok(Self(text.to_owned()));
        }
        Err(PodPatternError::Unknown(text.to_owned()))
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches a fact's name, such as `annotations/KEY`.
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

/// Matches with `*` for any bytes. Backtracking goes to the last `*` only, so the number of steps is at most the
/// product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((star_index, start)) = star {
            (p, t) = (star_index + 1, start + 1);
            star = Some((star_index, start + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::super::pod_fact::{MAX_KEY_BYTES, PodFact};
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
            let is_match = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(is_match, expected, "{pattern} {text}");
        }
        let slow = ("*a".repeat(200) + "b", "a".repeat(500));
        assert!(!matches(slow.0.as_bytes(), slow.1.as_bytes()));
    }

    #[test]
    fn patterns_begin_with_a_kind_of_fact() {
        for known in [
            "annotations/a.example/b",
            "labels/*",
            "network-status/*/net",
            "default-network",
            "network-info",
        ] {
            assert_eq!(PodPattern::parse(known).unwrap().as_str(), known);
        }
        for invalid in [
            "",
            "*",
            "annotations",
            "annotations/",
            "env/X",
            "labels/a\nb",
        ] {
            let error = PodPattern::parse(invalid).unwrap_err().to_string();
            assert!(error.contains("annotations/KEY"), "{error}");
        }
        assert!(PodPattern::parse(&format!("labels/{}", "a".repeat(600))).is_err());
    }

    #[test]
    fn the_name_of_a_fact_with_the_longest_key_is_a_pattern() {
        let key = "a".repeat(MAX_KEY_BYTES);
        for fact in [PodFact::Annotation(key.clone()), PodFact::Network(key)] {
            let name = fact.validated().unwrap().to_string();
            assert!(PodPattern::parse(&name).unwrap().matches(&name));
        }
    }

    #[test]
    fn a_kind_is_not_matched_by_a_star_of_another() {
        let labels = PodPattern::parse("labels/*").unwrap();
        assert!(labels.matches("labels/a/b"));
        assert!(!labels.matches("annotations/a"));
        assert!(!labels.matches("network-info"));
    }
}
