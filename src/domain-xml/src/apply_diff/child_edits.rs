//! Inserts, removes and moves children.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::change_tree::ChangeTree;
use super::{ApplyError, fragment, missing, same_name_order};
use crate::Element;
use crate::byte_classes::is_blank;
use crate::content_node::Node;
use crate::diff::namespace_scope::Scope;
use crate::source_text::Raw;

/// Edits the children and their descendants.
pub(super) fn edit(
    element: &mut Element,
    tree: &ChangeTree<'_>,
    scope: Option<&Rc<Scope>>,
) -> Result<(), ApplyError> {
    let mut arrivals = BTreeMap::new();
    for (to, change) in &tree.inserted {
        arrivals.insert(*to, fragment(change, scope)?);
    }
    let nodes = element.nodes_mut();
    let mut kept = Vec::with_capacity(nodes.len());
    let mut count = 0;
    for node in std::mem::take(nodes) {
        let Node::Element(mut child) = node else {
            kept.push(node);
            continue;
        };
        let index = count;
        count += 1;
        if let Some(below) = tree.child_trees.get(&index) {
            super::edit(&mut child, below, scope)?;
        }
        if let Some((to, _)) = tree.moved.get(&index) {
            arrivals.insert(*to, child);
        } else if !tree.removed.contains_key(&index) {
            kept.push(Node::Element(child));
            continue;
        }
        // The white space before a removed or moved child is removed, too.
        take_layout(&mut kept);
    }
    check_children_exist(tree, count)?;
    if !tree.rearranges() {
        *nodes = kept;
        return Ok(());
    }
    *nodes = merge(kept, arrivals, tree)?;
    same_name_order::order(nodes, &tree.ranks(), scope);
    Ok(())
}

fn check_children_exist(tree: &ChangeTree<'_>, count: usize) -> Result<(), ApplyError> {
    let below = tree
        .child_trees
        .range(count..)
        .find_map(|(_, tree)| tree.any());
    let moved = tree.moved.range(count..).map(|(_, (_, change))| *change);
    let removed = tree.removed.range(count..).map(|(_, change)| *change);
    match below.into_iter().chain(moved).chain(removed).next() {
        Some(change) => Err(missing(change)),
        None => Ok(()),
    }
}

/// Merges the children that stay, in their order, with those that are inserted or moved.
fn merge(
    kept: Vec<Node>,
    mut arrivals: BTreeMap<usize, Element>,
    tree: &ChangeTree<'_>,
) -> Result<Vec<Node>, ApplyError> {
    let mut nodes = Vec::with_capacity(kept.len() + arrivals.len());
    let mut count = 0;
    for node in kept {
        if node.element().is_none() {
            push(&mut nodes, node);
            continue;
        }
        // Before the white space that leads to the child.
        let lead = take_layout(&mut nodes);
        arrive(&mut nodes, &mut arrivals, &mut count);
        nodes.extend(lead);
        nodes.push(node);
        count += 1;
    }
    let end = take_layout(&mut nodes);
    arrive(&mut nodes, &mut arrivals, &mut count);
    if count > 0 || !nodes.is_empty() {
        nodes.extend(end);
    }
    match (arrivals.is_empty(), tree.first_rearrangement()) {
        (false, Some(change)) => Err(missing(change)),
        _ => Ok(nodes),
    }
}

fn arrive(nodes: &mut Vec<Node>, arrivals: &mut BTreeMap<usize, Element>, count: &mut usize) {
    while let Some(mut element) = arrivals.remove(count) {
        element.aligned = true;
        nodes.push(Node::Element(element));
        *count += 1;
    }
}

fn take_layout(nodes: &mut Vec<Node>) -> Option<Node> {
    nodes.pop_if(|node| node.is_layout())
}

/// Adds a node. Adjacent texts become one, and white space beside text would become part of it.
fn push(nodes: &mut Vec<Node>, node: Node) {
    let (Some(Node::Text(last)), Node::Text(raw)) = (nodes.last_mut(), &node) else {
        return nodes.push(node);
    };
    let (before, after) = (last.as_str(), raw.as_str());
    if is_blank(before) {
        *last = raw.clone();
    } else if !is_blank(after) {
        *last = Raw::written([before, after].concat().replace("]]>", "]]&gt;"));
    }
}
