//! Errors of reading a VMI.

use std::fmt;

/// A text that is not a virtual machine instance, or a path into it that is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmiError(pub(super) ErrorKind);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// What is wrong with the text.
    Unreadable(String),
    /// The path.
    InvalidPath(String),
}

impl fmt::Display for VmiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ErrorKind::Unreadable(reason) => write!(f, "the VMI cannot be read: {reason}"),
            ErrorKind::InvalidPath(path) => write!(
                f,
                "`{path}` is not a path into the VMI: names are joined by dots, one with a dot or a slash is ['a.b/c'], an \
                 item of a list is [0] or [name=root]"
            ),
        }
    }
}

impl std::error::Error for VmiError {}
