//! How far the patterns match an element of the documents, and the dangers of the element.

use domain_xml::host::{ElementAt, PatternStates};

use super::dangerous_set::{self, DangerKind, NodeLocation};
use super::reserved_nodes::ReservedNode;

/// For the root, and for elements that are not ancestors of a change: their indices are never compared.
pub(super) const NO_INDICES: (Option<usize>, Option<usize>) = (None, None);

/// An element of one document or of both, and how far the patterns match it.
#[derive(Clone)]
pub(super) struct ElementMatchState<'a> {
    /// The index in the parent, before and after.
    pub(super) indices: (Option<usize>, Option<usize>),
    pub(super) before: Option<ElementAt<'a>>,
    pub(super) after: Option<ElementAt<'a>>,
    pub(super) pattern_states: PatternStates,
    pub(super) depth: usize,
    /// The kind of the dangerous element that contains this element.
    pub(super) enclosing_danger: Option<DangerKind>,
    /// The element's own danger, if a pattern must name the element.
    pub(super) own_danger: Option<DangerKind>,
    pub(super) reserved: Option<ReservedNode>,
    /// In an element of both documents, the attributes for which libvirt takes a dangerous default now and did not before.
    pub(super) new_defaults: Vec<&'static str>,
    /// The first pattern that stopped at an ambiguous predicate between the root and this element.
    pub(super) ambiguous_pattern: Option<usize>,
}

/// Where an element of the document after is, given the element before.
pub(super) fn location_after(before: &Option<ElementAt<'_>>) -> NodeLocation {
    match before {
        Some(_) => NodeLocation::Edited,
        None => NodeLocation::After,
    }
}

impl<'a> ElementMatchState<'a> {
    /// The element in the document after, or else before.
    pub(super) fn at(&self) -> Option<&ElementAt<'a>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    pub(super) fn name(&self) -> &'a str {
        self.at().map_or("", |at| at.element.canonical_name())
    }

    /// The danger of an attribute, if a pattern must name the attribute.
    pub(super) fn attribute_danger(&self, name: &str) -> Option<DangerKind> {
        let enclosing = self.own_danger.or(self.enclosing_danger);
        if enclosing.is_some_and(|kind| !kind.acts_on_guest_alone()) {
            return None;
        }
        let danger = |at: &Option<ElementAt<'_>>, location| {
            let at = at.as_ref()?;
            dangerous_set::of_attribute(name, at.element, at.parent, location)
        };
        let found = danger(&self.before, NodeLocation::Before)
            .or_else(|| danger(&self.after, location_after(&self.before)));
        found.filter(|kind| dangerous_set::attribute_must_be_named(*kind, enclosing))
    }
}
