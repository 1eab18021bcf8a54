//! The quick way out: two subtrees written alike.

use crate::Element;
use crate::element::Node;

/// Whether the subtrees are written the same, layout between elements aside. False does not
/// mean that anything changed.
pub(super) fn is_same(a: &Element, b: &Element) -> bool {
    is_same_within(a, b, usize::MAX)
}

/// The same of subtrees with at most so many elements.
pub(super) fn is_same_within(a: &Element, b: &Element, mut elements: usize) -> bool {
    let mut pending = vec![(a, b)];
    while let Some((a, b)) = pending.pop() {
        let Some(left) = elements.checked_sub(1) else {
            return false;
        };
        elements = left;
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
