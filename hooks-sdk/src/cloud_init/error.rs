//! Why cloud-init data cannot be edited.

use std::fmt;

/// Why a text cannot be edited as YAML or as `#cloud-config`. An edit that is not safe is refused, and the text is not
/// changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloudInitError {
    /// The user data is something else: a script, a MIME archive, a template.
    #[non_exhaustive]
    NotCloudConfig {
        /// Its first line.
        begins: String,
    },
    /// An error in one of the documents.
    #[non_exhaustive]
    InDocument {
        /// `user-data` or `network-data`.
        document: &'static str,
        /// The error.
        error: Box<CloudInitError>,
    },
    /// The path is invalid. Valid are names joined by dots, `['a.b/c']` for a name with dots or slashes.
    #[non_exhaustive]
    InvalidPath {
        /// The invalid path.
        path: String,
    },
    /// The key holds something that no item can be added to.
    #[non_exhaustive]
    NotAList {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
    },
    /// The key holds something that has no keys.
    #[non_exhaustive]
    NotAMapping {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
    },
    /// The key holds an anchor, an alias or a tag, which other lines may depend on.
    #[non_exhaustive]
    AnchorOrTag {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
    },
    /// The key exists twice.
    #[non_exhaustive]
    Ambiguous {
        /// The key.
        key: String,
    },
    /// A file that cloud-init would not write, or not as meant.
    #[non_exhaustive]
    InvalidFile {
        /// The file's path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The members of a user are not an object, or contain the name.
    #[non_exhaustive]
    InvalidUser {
        /// The user's name.
        name: String,
        /// What is wrong with the members.
        reason: &'static str,
    },
}

impl CloudInitError {
    pub(super) fn within(self, document: &'static str) -> Self {
        match self {
            // Its text already contains the document.
            Self::NotCloudConfig { .. } => self,
            error => Self::InDocument {
                document,
                error: Box::new(error),
            },
        }
    }
}

impl fmt::Display for CloudInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCloudConfig { begins } => write!(
                f,
                "the user data is no #cloud-config document: it begins with {begins:?}"
            ),
            Self::InDocument { document, error } => write!(f, "{document}, {error}"),
            Self::InvalidPath { path } => write!(
                f,
                "`{path}` is not a path: names are joined by dots, and one with a dot or a slash is ['a.b/c']"
            ),
            Self::NotAList { key, line } => {
                write!(
                    f,
                    "line {line}: {key} is not a list that an item can be added to"
                )
            }
            Self::NotAMapping { key, line } => {
                write!(
                    f,
                    "line {line}: {key} is not a mapping that a key can be added to"
                )
            }
            Self::AnchorOrTag { key, line } => write!(
                f,
                "line {line}: {key} has an anchor, an alias or a tag and is not replaced"
            ),
            Self::Ambiguous { key } => write!(f, "the key {key} is there twice"),
            Self::InvalidFile { path, reason } => write!(f, "the file {path:?}: {reason}"),
            Self::InvalidUser { name, reason } => write!(f, "the user {name}: {reason}"),
        }
    }
}

impl std::error::Error for CloudInitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InDocument { error, .. } => Some(error),
            _ => None,
        }
    }
}
