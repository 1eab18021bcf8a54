//! The order among children of one name.
//!
//! A diff reports a changed order only among children of one name. The index of an inserted or moved child can
//! therefore be before or after the wrong sibling of its name; its rank among the siblings of its name decides.

use std::collections::HashMap;
use std::rc::Rc;

use crate::content_node::Node;
use crate::diff::namespace_scope::{self, Name, Scope};
use crate::source_text::Raw;

/// Puts each arrival at its rank among the children of its name, by exchanging children of that name. `ranks` has the
/// ranks of arrivals by their index among the children.
pub(super) fn order(nodes: &mut [Node], ranks: &HashMap<usize, usize>, scope: Option<&Rc<Scope>>) {
    for group in name_groups(nodes, scope) {
        if group.iter().any(|child| ranks.contains_key(&child.index)) {
            order_group(nodes, &group, ranks);
        }
    }
}

/// A child, by its index among the children and its place among the nodes.
struct Child {
    index: usize,
    node: usize,
}

fn name_groups(nodes: &[Node], scope: Option<&Rc<Scope>>) -> Vec<Vec<Child>> {
    let mut name_groups: Vec<Vec<Child>> = Vec::new();
    let mut known: HashMap<Name<'_>, usize> = HashMap::new();
    let elements = nodes.iter().enumerate();
    let elements = elements.filter_map(|(node, one)| Some((node, one.element()?)));
    for (index, (node, element)) in elements.enumerate() {
        let inner = namespace_scope::enter(scope, element);
        let group = *known
            .entry(Name::of(element, inner.as_ref()))
            .or_insert(name_groups.len());
        if group == name_groups.len() {
            name_groups.push(Vec::new());
        }
        name_groups[group].push(Child { index, node });
    }
    name_groups
}

fn order_group(nodes: &mut [Node], group: &[Child], ranks: &HashMap<usize, usize>) {
    let mut wanted: Vec<Option<usize>> = vec![None; group.len()];
    let mut other_nodes = Vec::new();
    for (at, child) in group.iter().enumerate() {
        let rank = ranks.get(&child.index).copied();
        match rank.and_then(|rank| wanted.get_mut(rank)) {
            Some(slot) if slot.is_none() => *slot = Some(at),
            // The child has no rank because it was not moved, or an invalid one because the changes are not a diff of
            // this document.
            _ => other_nodes.push(at),
        }
    }
    let mut other_nodes = other_nodes.into_iter();
    let order: Vec<usize> = wanted
        .into_iter()
        .filter_map(|at| at.or_else(|| other_nodes.next()))
        .collect();
    if order.is_sorted() {
        return;
    }
    let mut taken: Vec<Node> = Vec::with_capacity(group.len());
    for child in group {
        let empty_node = Node::Other(Raw::written(String::new()));
        taken.push(std::mem::replace(&mut nodes[child.node], empty_node));
    }
    for (child, from) in group.iter().zip(order) {
        std::mem::swap(&mut nodes[child.node], &mut taken[from]);
    }
}
