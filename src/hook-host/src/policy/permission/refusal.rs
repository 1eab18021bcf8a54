//! Why a change is not permitted.

use super::dangerous_set::DangerKind;
use super::reserved_nodes::ReservedNode;

/// A node whose change is not permitted, and the pattern that would permit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The outermost node that no pattern permits: the change's path, a path inside of it, or for
    /// a move the parent's.
    pub path: String,
    /// Why.
    pub reason: Reason,
    /// A pattern that would permit it; none when nothing can.
    pub hint: Option<String>,
}

/// Why a change is not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No hook may change it.
    Reserved(ReservedNode),
    /// It is in the dangerous set, and no pattern names it.
    Dangerous(DangerKind),
    /// A pattern would select it, but its predicate fits several siblings or the element is only
    /// known by its position.
    Ambiguous {
        /// The pattern, by index.
        pattern: usize,
    },
    /// A child moved, and no pattern permits the parent.
    Move,
    /// No pattern selects it.
    NoPattern {
        /// The pattern that comes closest, by index, if one selects anything around it.
        nearest: Option<usize>,
    },
    /// The change was not found by a diff of these documents.
    NoPlace,
    /// The budget for checks was used up before this change was checked.
    Unchecked,
    /// The root element became another one, or more changed than can be told apart.
    Document,
}

pub(super) fn refusal(path: String, reason: Reason) -> Box<Refusal> {
    Box::new(Refusal {
        path,
        reason,
        hint: None,
    })
}
