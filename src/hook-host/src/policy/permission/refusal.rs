//! Why a change is not permitted.

use super::dangerous_set::DangerKind;
use super::reserved_nodes::ReservedNode;

/// A node whose change is not permitted, and the pattern that would permit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The outermost node that no pattern permits: the change's path, a path inside of it, or the
    /// parent's if its children are reordered.
    pub path: String,
    /// Why the change is not permitted.
    pub reason: RefusalReason,
    /// A pattern that would permit the change; none if no pattern can.
    pub suggested_pattern: Option<String>,
}

impl Refusal {
    /// Whether the node is refused for what it tells the guest alone.
    pub(super) fn acts_on_guest_alone(&self) -> bool {
        matches!(&self.reason, RefusalReason::Dangerous(kind) if kind.acts_on_guest_alone())
    }
}

/// Why a change is not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// No hook may change the node.
    Reserved(ReservedNode),
    /// The node is in the dangerous set, and no pattern names it.
    Dangerous(DangerKind),
    /// A pattern would select the node, but a predicate matches several siblings, or the element has no identity but
    /// its position.
    Ambiguous {
        /// The index of the pattern.
        pattern: usize,
    },
    /// The order of children changed, and no pattern permits the parent.
    ReorderedChildren,
    /// A pattern selects the node, and its value does not meet the pattern's condition.
    ConditionNotMet {
        /// The index of the pattern.
        pattern: usize,
        /// The value, and why it does not meet the condition.
        reason: String,
    },
    /// No pattern selects the node.
    NoPattern {
        /// The index of the pattern that matches the deepest ancestor, if any.
        nearest: Option<usize>,
    },
    /// The change is not of a diff of these documents.
    NotInDiff,
    /// The budget was exhausted before this change was checked.
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
