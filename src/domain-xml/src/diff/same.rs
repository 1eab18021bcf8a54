//! The quick way out: two subtrees that are the same.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use super::scope::{self, Name, Scope};
use super::{attributes, own_text};
use crate::Element;
use crate::element::Node;

/// Whether the subtrees are written the same, layout between elements aside. False does not
/// mean that anything changed.
pub(super) fn is_same(a: &Element, b: &Element) -> bool {
    let mut pending = vec![(a, b)];
    while let Some((a, b)) = pending.pop() {
        if a.name != b.name || !same_attributes(a, b) {
            return false;
        }
        let mut theirs = b.nodes.iter().filter(|node| !node.is_layout());
        for node in a.nodes.iter().filter(|node| !node.is_layout()) {
            match (node, theirs.next()) {
                (Node::Element(a), Some(Node::Element(b))) => pending.push((a, b)),
                (Node::Text(a), Some(Node::Text(b))) if a == b => {}
                (Node::CData(a), Some(Node::CData(b))) if a == b => {}
                (Node::Other(a), Some(Node::Other(b))) if a == b => {}
                _ => return false,
            }
        }
        if theirs.next().is_some() {
            return false;
        }
    }
    true
}

fn same_attributes(a: &Element, b: &Element) -> bool {
    a.attributes.len() == b.attributes.len()
        && a.attributes
            .iter()
            .zip(&b.attributes)
            .all(|(a, b)| a.name == b.name && a.raw == b.raw)
}

/// An element, and what prefixes mean inside it.
pub(super) type Scoped<'a> = (&'a Element, Option<Rc<Scope>>);

/// Whether a diff of the subtrees would tell nothing, however they are written. False when there
/// are more than so many elements to compare.
pub(super) fn is_alike(a: Scoped<'_>, b: Scoped<'_>, mut elements: usize) -> bool {
    let mut pending = vec![(a, b)];
    while let Some((a, b)) = pending.pop() {
        let Some(left) = elements.checked_sub(1) else {
            return false;
        };
        elements = left;
        let same_name = Name::of(a.0, a.1.as_ref()) == Name::of(b.0, b.1.as_ref());
        if !same_name || values(&a) != values(&b) || own_text(a.0) != own_text(b.0) {
            return false;
        }
        let (mut ours, mut theirs) = (a.0.children(), b.0.children());
        loop {
            let inside =
                |child, around: &Scoped<'_>| (child, scope::enter(around.1.as_ref(), child));
            match (ours.next(), theirs.next()) {
                (Some(our), Some(their)) => pending.push((inside(our, &a), inside(their, &b))),
                (None, None) => break,
                _ => return false,
            }
            if pending.len() > elements {
                return false;
            }
        }
    }
    true
}

fn values<'a>((element, scope): &Scoped<'a>) -> HashMap<Name<'a>, Cow<'a, str>> {
    let list = attributes(element, scope.as_ref()).into_iter();
    list.map(|(name, attribute)| (name, attribute.value()))
        .collect()
}
