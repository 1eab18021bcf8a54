//! What changed between two documents.
use crate::Document;

/// What happened to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is new.
    Inserted,
    /// It is gone.
    Removed,
    /// It has another value.
    Edited,
    /// It stands elsewhere among its siblings.
    Moved,
}

/// One difference between two documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where, as a path pattern.
    pub path: String,
    /// What happened there.
    pub kind: ChangeKind,
    /// The value before.
    pub before: Option<String>,
    /// The value after.
    pub after: Option<String>,
}

/// The differences between two documents.
pub fn diff(_before: &Document, _after: &Document) -> Vec<Change> {
    Vec::new()
}
