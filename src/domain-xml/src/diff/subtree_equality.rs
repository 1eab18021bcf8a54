//! Equality of subtrees, as written or in content.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::namespace_scope::{Name, Scope};
use super::{namespace_scope, own_text};
use crate::content_node::Node;
use crate::host::Budget;
use crate::start_tag::Attribute;
use crate::{Element, name};

/// Whether the subtrees are written alike, ignoring white space between elements. If not, they may still be equal in
/// content.
pub(super) fn is_written_alike(a: &Element, b: &Element, budget: &Budget<'_>) -> bool {
    let mut pending = vec![(a, b)];
    while let Some((a, b)) = pending.pop() {
        if is_copy(a, b) {
            continue;
        }
        if !budget.spend(1) || !same_tags(a, b) {
            return false;
        }
        let mut theirs = b.nodes().iter().filter(|node| !node.is_layout());
        for node in a.nodes().iter().filter(|node| !node.is_layout()) {
            match (node, theirs.next()) {
                (Node::Element(a), Some(Node::Element(b))) => pending.push((a, b)),
                (Node::Text(a), Some(Node::Text(b)))
                | (Node::CData(a), Some(Node::CData(b)))
                | (Node::Other(a), Some(Node::Other(b)))
                    if a.as_str() == b.as_str() => {}
                _ => return false,
            }
        }
        if theirs.next().is_some() {
            return false;
        }
    }
    true
}

/// Whether both are unedited and have the same bytes.
pub(super) fn is_copy(a: &Element, b: &Element) -> bool {
    matches!((a.as_read(), b.as_read()), (Some(a), Some(b)) if a == b)
}

fn same_tags(a: &Element, b: &Element) -> bool {
    a.tag() == b.tag() || (a.tag_name() == b.tag_name() && written(a).eq(written(b)))
}

fn written(element: &Element) -> impl Iterator<Item = (&str, &str)> {
    let attributes = element.attributes();
    attributes.map(|attribute| (attribute.name, attribute.raw))
}

/// An element, and the namespaces inside it.
pub(super) type ElementInScope<'a> = (&'a Element, Option<Rc<Scope>>);

/// Whether a diff of the subtrees would be empty. False if the subtrees have more than this number of elements, or the
/// budget is used up.
pub(super) fn is_equivalent(
    a: ElementInScope<'_>,
    b: ElementInScope<'_>,
    mut elements: usize,
    budget: &Budget<'_>,
) -> bool {
    let mut pending = vec![(a, b)];
    while let Some((a, b)) = pending.pop() {
        let Some(left) = elements.checked_sub(1) else {
            return false;
        };
        elements = left;
        let bytes = |element: &Element| element.tag_bytes() + element.text_bytes();
        if !budget.spend_text(bytes(a.0) + bytes(b.0)) {
            return false;
        }
        let same_name = Name::of(a.0, a.1.as_ref()) == Name::of(b.0, b.1.as_ref());
        if !same_name || !same_values(&a, &b) || own_text(a.0) != own_text(b.0) {
            return false;
        }
        let room = elements.saturating_sub(pending.len());
        let (Some(ours), Some(theirs)) = (by_name(&a, room), by_name(&b, room)) else {
            return false;
        };
        if ours.len() != theirs.len() {
            return false;
        }
        let pairs = ours.into_iter().zip(theirs);
        pending.extend(pairs.map(|((_, our), (_, their))| (our, their)));
    }
    true
}

/// The children in the order of their names, and in their own order among those of one name. `None` if there are more
/// than `room`.
fn by_name<'a>(
    around: &ElementInScope<'a>,
    room: usize,
) -> Option<Vec<(Name<'a>, ElementInScope<'a>)>> {
    let mut named = Vec::new();
    for child in around.0.children() {
        if named.len() == room {
            return None;
        }
        let inside = namespace_scope::enter(around.1.as_ref(), child);
        named.push((Name::of(child, inside.as_ref()), (child, inside)));
    }
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(named)
}

fn same_values(a: &ElementInScope<'_>, b: &ElementInScope<'_>) -> bool {
    let ours = AttributeIndex::new(a.0, a.1.as_ref());
    let theirs = AttributeIndex::new(b.0, b.1.as_ref());
    let mut numbered = ours.list.iter().enumerate();
    let same = |(at, (name, attribute)): (usize, &(Name<'_>, Attribute<'_>))| {
        let other = theirs.get(name, at);
        other.is_some_and(|other| attribute.value() == other.value())
    };
    ours.list.len() == theirs.list.len() && numbered.all(same)
}

/// The attributes that are not namespace declarations.
pub(super) struct AttributeIndex<'a> {
    pub(super) list: Vec<(Name<'a>, Attribute<'a>)>,
    /// Positions in `list` by name, built on the first miss.
    positions: OnceCell<HashMap<Name<'a>, usize>>,
}

impl<'a> AttributeIndex<'a> {
    pub(super) fn new(element: &'a Element, scope: Option<&Rc<Scope>>) -> AttributeIndex<'a> {
        let all = element.attributes();
        let plain = all.filter(|attribute| name::declared_prefix(attribute.name).is_none());
        let named = |a: Attribute<'a>| (Name::of_attribute(a.name, scope), a);
        AttributeIndex {
            list: plain.map(named).collect(),
            positions: OnceCell::new(),
        }
    }

    /// The attribute of this name, looked for at the expected position first.
    pub(super) fn get(&self, name: &Name<'_>, expected: usize) -> Option<&Attribute<'a>> {
        match self.list.get(expected) {
            Some((here, attribute)) if here == name => Some(attribute),
            _ => {
                let (_, attribute) = &self.list[*self.positions().get(name)?];
                Some(attribute)
            }
        }
    }

    fn positions(&self) -> &HashMap<Name<'a>, usize> {
        self.positions.get_or_init(|| {
            let names = self.list.iter().map(|(name, _)| name.clone());
            names.zip(0..).collect()
        })
    }
}
