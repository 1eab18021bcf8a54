//! Parses policy files strictly.

mod plain_reason;
mod refuse_missing_values;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options};

use crate::printable::{MAX_MESSAGE, printable};
use plain_reason::plain_reason;
use refuse_missing_values::CompleteDocument;

/// Why a policy file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
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
        /// What is wrong.
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
    const START: Self = Self { line: 1, column: 1 };
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

/// Parses one document. Missing values, unknown and repeated keys, merge keys, aliases and a second document are
/// refused.
pub(super) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, PolicyError> {
    let wrong = |error: serde_saphyr::Error| {
        let position = error
            .location()
            .map_or(YamlPosition::START, YamlPosition::from);
        PolicyError::at(path, position, reason(&error, text))
    };
    let is_nothing = |line: &str| matches!(line.trim(), "" | "---") || line.trim().starts_with('#');
    if text.lines().all(is_nothing) {
        let reason = "it is empty, which limits nothing: write {} if that is meant";
        return Err(PolicyError::at(path, YamlPosition::START, reason));
    }
    serde_saphyr::from_str_with_options::<CompleteDocument>(text, options()).map_err(wrong)?;
    serde_saphyr::from_str_with_options(text, options()).map_err(wrong)
}

fn options() -> Options {
    let budget = serde_saphyr::budget! {
        max_aliases: 0,
        max_anchors: 0,
        max_depth: 16,
        max_documents: 1,
        max_nodes: 20_000,
    };
    serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// The parser's message in plain words, without the position, which the error prints first.
fn reason(error: &serde_saphyr::Error, file: &str) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let Some(at) = error.location() else {
        return plain_reason(first, "");
    };
    let (line, column) = (at.line(), at.column());
    let first = first.replace(&format!(" at line {line}, column {column}"), "");
    let first = first.replace(&format!("line {line} column {column}: "), "");
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let whole = file.lines().nth(size(line).saturating_sub(1));
    let before = whole.unwrap_or_default().chars();
    let before: String = before.take(size(column).saturating_sub(1)).collect();
    plain_reason(&first, &before)
}
