//! Reads policy files. Their size is limited, and links are followed within their directory only.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

use crate::printable::{MAX_MESSAGE, printable, utf8};

/// Maximum size of a policy file in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Reads a file in an open directory; `None` if the file does not exist. Links are followed within the
/// directory only. `path` is the file's path for errors.
pub(super) fn read_in(dir: &Dir, file: &str, path: &Path) -> Result<Option<String>, PolicyError> {
    let unreadable = |error: io::Error| PolicyError::unreadable(path, &error);
    if let Err(error) = dir.symlink_metadata(file) {
        return match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            _ => Err(unreadable(error)),
        };
    }
    // Opening a pipe without a writer would block.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let opened = dir
        .open_with(file, &options)
        .map_err(|error| PolicyError::Read {
            path: path.to_owned(),
            reason: format!("{error} (links are followed within the directory only)"),
        })?;
    read_text(opened.into_std(), path).map(Some)
}

/// Reads the file at a path; `None` if the file does not exist. Links are followed within its directory
/// only.
pub(super) fn read_at(path: &Path) -> Result<Option<String>, PolicyError> {
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
        Ok(dir) => read_in(&dir, name, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PolicyError::unreadable(path, &error)),
    }
}

fn read_text(file: File, path: &Path) -> Result<String, PolicyError> {
    let unreadable = |error: io::Error| PolicyError::unreadable(path, &error);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let reason = format!("it has more than the {MAX_FILE_BYTES} bytes a policy may have");
        return Err(unreadable(io::Error::other(reason)));
    }
    utf8(bytes).map_err(|reason| unreadable(io::Error::other(reason)))
}

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

#[cfg(test)]
mod tests;
