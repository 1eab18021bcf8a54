//! Why a change is not permitted.

use super::dangerous_set::DangerKind;
use super::reserved_nodes::ReservedNode;

/// A node whose change is not permitted, and the pattern that would permit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The outermost node that no pattern permits: the change's path, a path inside of it, or the
    /// parent's if its children are reordered.
    pub path: String,
    /// The cause.
    pub reason: RefusalReason,
    /// A pattern that would permit it; none if no pattern can.
    pub suggested_pattern: Option<String>,
}

/// Why a change is not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// No hook may change it.
    Reserved(ReservedNode),
    /// It is in the dangerous set, and no pattern contains its name.
    Dangerous(DangerKind),
    /// A pattern would select it, but its predicate fits several siblings or the element is only
    /// known by its position.
    Ambiguous {
        /// The pattern, by index.
        pattern: usize,
    },
    /// Children have another order, and no pattern permits the parent.
    ReorderedChildren,
    /// No pattern selects it.
    NoPattern {
        /// The pattern that comes closest, by index, if one selects anything around it.
        nearest: Option<usize>,
    },
    /// The change is not of a diff of these documents.
    NotInDiff,
    /// The budget for checks was used up before this change was checked.
    CheckBudgetExhausted,
    /// The root element has another name, or the documents differ too much for a diff by path.
    DocumentReplaced,
}

pub(super) fn refusal(path: String, reason: RefusalReason) -> Box<Refusal> {
    Box::new(Refusal {
        path,
        reason,
        suggested_pattern: None,
    })
}
