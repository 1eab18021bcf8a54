//! The error of a policy file, with the position of the mistake.

use std::io;
use std::path::{Path, PathBuf};

use crate::printable::{MAX_MESSAGE, printable};

/// Why a policy file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why the file cannot be read.
        reason: String,
    },
    /// The content is malformed, misspelt or contradictory.
    #[error("{path}:{line}:{column}: {reason}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column in characters, from 1.
        column: u64,
        /// The mistake.
        reason: String,
    },
}

/// A position in a policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct YamlPosition {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl YamlPosition {
    /// The position of an error that concerns the whole file.
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

impl From<serde_saphyr::Location> for YamlPosition {
    fn from(location: serde_saphyr::Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

impl PolicyError {
    /// An error at a position in the file.
    pub(super) fn at(path: &Path, position: YamlPosition, reason: impl Into<String>) -> Self {
        Self::Wrong {
            path: path.to_owned(),
            line: position.line,
            column: position.column,
            reason: printable(&reason.into(), MAX_MESSAGE),
        }
    }

    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }
}
