//! The differences between two documents.
//!
//! Both trees are walked together. Children are paired by what identifies them (see [`element_keys`]), so that a change
//! is reported for the element that changed, wherever it stands. White space between elements, quotes, entities, CDATA,
//! comments, namespace prefixes, `<a/>` for `<a></a>` and the order of siblings of different names are no changes.

mod attribute_changes;
mod attribute_index;
mod change;
mod child_changes;
mod child_pairing;
pub(crate) mod element_keys;
mod element_paths;
mod identity_index;
mod moved_children;
mod name_interner;
pub(crate) mod namespace_scope;
mod path_name_group;
pub(crate) mod sibling_index;
mod subtree_equality;
mod tree_walk;

use crate::byte_classes::is_blank;
use crate::host::Budget;
use crate::{Document, Element, render};
pub(crate) use change::Binding;
pub use change::{Change, ChangeKind, Part, Place};
use tree_walk::{Differ, document_place};

/// The differences between two documents, outer before inner and in document order.
pub fn diff(before: &Document, after: &Document) -> Vec<Change> {
    diff_within(before, after, &Budget::unlimited())
}

/// As [`diff`], within a budget. If the budget is [exhausted](Budget::exhausted), changes are missing.
pub fn diff_within(before: &Document, after: &Document, budget: &Budget<'_>) -> Vec<Change> {
    let mut differ = Differ::new(budget);
    differ.roots(&before.root, &after.root);
    if let Some(changes) = differ.finish() {
        return changes;
    }
    vec![Change {
        path: format!("/{}", before.root.canonical_name()),
        kind: ChangeKind::Edited,
        before: Some(render::compact(&before.root)),
        after: Some(render::compact(&after.root)),
        place: document_place(&after.root),
    }]
}

/// The element's text without the white space that only indents its children.
pub(crate) fn own_text(element: &Element) -> String {
    if !element.has_text() {
        return String::new();
    }
    let text = element.text();
    if is_blank(&text) {
        return String::new();
    }
    if element.children().next().is_none() {
        return text;
    }
    element.text_without_layout()
}

#[cfg(test)]
mod tests;
