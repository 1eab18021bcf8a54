//! The error of reading a fact about the pod.

use std::fmt;

/// The error of reading a fact. The text names the fact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FactError {
    /// The hook does not declare the fact, or a policy does not allow it.
    Denied(String),
    /// The fact was not there after some seconds.
    Absent(String),
    /// The host cannot see the facts of the pod, or what it sees is invalid.
    Unreadable(String),
}

impl fmt::Display for FactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(text) | Self::Absent(text) | Self::Unreadable(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for FactError {}
