//! Why cloud-init data cannot be edited.

use std::fmt;

/// Why a text cannot be edited as YAML, or not as `#cloud-config`. Nothing is guessed: what the
/// text form cannot take safely is refused, and the text stays as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloudInitError {
    /// The user data is something else: a script, a MIME archive, a template.
    NotCloudConfig {
        /// How it begins.
        begins: String,
    },
    /// What is wrong, in one of the documents.
    In {
        /// `user-data` or `network-data`.
        document: &'static str,
        /// What.
        error: Box<CloudInitError>,
    },
    /// The path is none: names joined by dots, `['a.b/c']` for a name with dots or slashes.
    BadPath {
        /// What was given.
        path: String,
    },
    /// The key holds something that no item can be added to.
    NotAList {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
    },
    /// The key holds something that has no keys.
    NotAMapping {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
    },
    /// The key holds an anchor, an alias or a tag, which other lines may depend on.
    Entangled {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
    },
    /// The key is there twice.
    Ambiguous {
        /// The key.
        key: String,
    },
}

impl CloudInitError {
    pub(super) fn within(self, document: &'static str) -> Self {
        match self {
            // It says so itself.
            Self::NotCloudConfig { .. } => self,
            error => Self::In {
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
            Self::In { document, error } => write!(f, "{document}, {error}"),
            Self::BadPath { path } => write!(
                f,
                "`{path}` is no path: names are joined by dots, and one with a dot or a slash is ['a.b/c']"
            ),
            Self::NotAList { key, line } => {
                write!(
                    f,
                    "line {line}: {key} is no list that an item can be added to"
                )
            }
            Self::NotAMapping { key, line } => {
                write!(
                    f,
                    "line {line}: {key} is no mapping that a key can be added to"
                )
            }
            Self::Entangled { key, line } => write!(
                f,
                "line {line}: {key} has an anchor, an alias or a tag and is not replaced"
            ),
            Self::Ambiguous { key } => write!(f, "the key {key} is there twice"),
        }
    }
}

impl std::error::Error for CloudInitError {}
