//! A rule of the dangerous set, and constructors for the tables of rules.

use super::DangerKind;

/// A rule for an element or attribute.
pub(super) struct Rule {
    /// The parent of the element; `None` for any.
    pub(super) parent: Option<&'static str>,
    /// The element; `None` for any.
    pub(super) element: Option<&'static str>,
    /// The attribute; `None` for a rule about the element.
    pub(super) attribute: Option<&'static str>,
    pub(super) when: When,
    pub(super) kind: DangerKind,
}

/// Which changes are dangerous.
#[derive(Clone, Copy)]
pub(super) enum When {
    /// Every change.
    Always,
    /// Additions with, and changes to, a value for which the function is true: an attribute's value, or an element's
    /// text.
    AddedOrChangedTo(fn(&str) -> bool),
    /// Changes to a value for which the function is true, of an element that exists in both documents. A new element
    /// needs the grant of its source instead.
    ChangedTo(fn(&str) -> bool),
    /// Removals, unless the parent is removed too.
    Removed,
    /// Every change of an element that has this attribute, with a value for which the function is true, before or after
    /// the change.
    With(&'static str, fn(&str) -> bool),
    /// Additions of the element. In an element that exists in both documents, the changed node has a rule of its own.
    Added,
}

pub(super) const fn element_rule(
    parent: Option<&'static str>,
    element: &'static str,
    when: When,
    kind: DangerKind,
) -> Rule {
    Rule {
        parent,
        element: Some(element),
        attribute: None,
        when,
        kind,
    }
}

pub(super) const fn attribute_rule(
    parent: Option<&'static str>,
    element: Option<&'static str>,
    attribute: &'static str,
    when: When,
    kind: DangerKind,
) -> Rule {
    Rule {
        parent,
        element,
        attribute: Some(attribute),
        when,
        kind,
    }
}

/// Every change of an element, in any parent.
pub(super) const fn element_anywhere(name: &'static str, kind: DangerKind) -> Rule {
    element_rule(None, name, When::Always, kind)
}

/// Every change of an element in this parent.
pub(super) const fn element_in(parent: &'static str, name: &'static str, kind: DangerKind) -> Rule {
    element_rule(Some(parent), name, When::Always, kind)
}

/// Every change of an attribute of an element.
pub(super) const fn attribute_of(
    element: &'static str,
    name: &'static str,
    kind: DangerKind,
) -> Rule {
    attribute_rule(None, Some(element), name, When::Always, kind)
}

/// An attribute of an element, if it gets a value for which the function is true.
pub(super) const fn attribute_set_to(
    element: &'static str,
    name: &'static str,
    is_dangerous: fn(&str) -> bool,
    kind: DangerKind,
) -> Rule {
    attribute_rule(
        None,
        Some(element),
        name,
        When::AddedOrChangedTo(is_dangerous),
        kind,
    )
}

/// Every change of an attribute of any element.
pub(super) const fn attribute_anywhere(name: &'static str, kind: DangerKind) -> Rule {
    attribute_rule(None, None, name, When::Always, kind)
}
