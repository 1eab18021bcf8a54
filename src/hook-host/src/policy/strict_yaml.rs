//! Reads and parses policy files strictly.

mod plain_reason;
mod refuse_missing_values;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use serde::de::DeserializeOwned;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options};

use crate::printable::{MAX_MESSAGE, printable, utf8};
use plain_reason::plain_reason;
use refuse_missing_values::CompleteDocument;

/// The largest policy file in bytes.
const MAX_BYTES: u64 = 256 << 10;

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

/// The location of the operator's policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PolicySource {
    /// There is no policy.
    #[default]
    None,
    /// In this file if it exists: for a default path.
    IfPresent(PathBuf),
    /// In this file, which must exist.
    File(PathBuf),
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

/// The text of a file in an open directory. Links are followed within the directory only; `None`
/// if the file does not exist.
pub(super) fn text_in(dir: &Dir, file: &str, path: &Path) -> Result<Option<String>, PolicyError> {
    let unreadable = |error: io::Error| PolicyError::unreadable(path, &error);
    if let Err(error) = dir.symlink_metadata(file) {
        return match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            _ => Err(unreadable(error)),
        };
    }
    // Do not block on a pipe without a writer.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let opened = dir
        .open_with(file, &options)
        .map_err(|error| PolicyError::Read {
            path: path.to_owned(),
            reason: format!("{error} (links are followed within the directory only)"),
        })?;
    read(opened.into_std(), path).map(Some)
}

/// The text of the file at a path. Links are followed within its directory only.
pub(super) fn text_at(path: &Path) -> Result<Option<String>, PolicyError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return Err(PolicyError::Read {
            path: path.to_owned(),
            reason: "that is not a file's path".to_owned(),
        });
    };
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    match Dir::open_ambient_dir(parent, ambient_authority()) {
        Ok(dir) => text_in(&dir, name, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PolicyError::unreadable(path, &error)),
    }
}

fn read(file: File, path: &Path) -> Result<String, PolicyError> {
    let unreadable = |error: io::Error| PolicyError::unreadable(path, &error);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        let reason = format!("it has more than the {MAX_BYTES} bytes a policy may have");
        return Err(unreadable(io::Error::other(reason)));
    }
    utf8(bytes).map_err(|reason| unreadable(io::Error::other(reason)))
}
