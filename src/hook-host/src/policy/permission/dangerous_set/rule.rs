//! One rule of the dangerous set, and how the table writes it.

use super::DangerKind;

/// A rule for an element or attribute.
pub(super) struct Rule {
    /// The element around, if it matters.
    pub(super) parent: Option<&'static str>,
    /// The element, if it matters.
    pub(super) element: Option<&'static str>,
    /// The attribute; `None` for a rule about the element.
    pub(super) attribute: Option<&'static str>,
    pub(super) when: When,
    pub(super) kind: DangerKind,
}

/// Which changes are dangerous.
#[derive(Clone, Copy)]
pub(super) enum When {
    Always,
    /// Changes to such a value: an attribute's, or an element's text.
    AddedOrChangedTo(fn(&str) -> bool),
    /// Changes of an element that was there to such a value. A new element needs the grant of what it reads.
    ChangedTo(fn(&str) -> bool),
    /// Removals, unless the parent is removed too.
    Removed,
    /// New elements. A change of one that was there is judged by what changes in it.
    Added,
}

/// An attribute that must be named if a new element comes without it, since libvirt then takes a value that other
/// rules are about.
pub(super) struct DangerousDefault {
    pub(super) element: &'static str,
    pub(super) attribute: &'static str,
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

/// An element anywhere.
pub(super) const fn element_anywhere(name: &'static str, kind: DangerKind) -> Rule {
    element_rule(None, name, When::Always, kind)
}

/// An element in another.
pub(super) const fn element_in(parent: &'static str, name: &'static str, kind: DangerKind) -> Rule {
    element_rule(Some(parent), name, When::Always, kind)
}

/// An attribute of an element.
pub(super) const fn attribute_of(
    element: &'static str,
    name: &'static str,
    kind: DangerKind,
) -> Rule {
    attribute_rule(None, Some(element), name, When::Always, kind)
}

/// An attribute of an element, if it becomes such a value.
pub(super) const fn attribute_set_to(
    element: &'static str,
    name: &'static str,
    value: fn(&str) -> bool,
    kind: DangerKind,
) -> Rule {
    attribute_rule(
        None,
        Some(element),
        name,
        When::AddedOrChangedTo(value),
        kind,
    )
}

/// An attribute of any element.
pub(super) const fn attribute_anywhere(name: &'static str, kind: DangerKind) -> Rule {
    attribute_rule(None, None, name, When::Always, kind)
}
