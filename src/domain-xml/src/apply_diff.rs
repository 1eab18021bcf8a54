//! Applies a diff to the document before, which gives the document after.
//!
//! [`diff`](crate::host::diff()) finds no difference between `apply(&diff(a, b), a)` and `b`. Parts that no change names keep
//! their bytes.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::byte_classes::is_blank;
use crate::content_node::Node;
use crate::diff::namespace_scope::{Name, Scope};
use crate::diff::{Binding, Part, Place, namespace_scope, own_text};
use crate::host::{Change, ChangeKind};
use crate::source_text::Raw;
use crate::{Document, Element, Limits, MAX_DEPTH, ParseError, escape, name};

/// Why a change cannot be applied to a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The change was not made by a diff.
    #[error("{path}: the change does not come from a diff, so its place is unknown")]
    NoPlace {
        /// The change's path.
        path: String,
    },
    /// The document has no such place: it is not the document that the diff was made from.
    #[error("{path}: the document does not have this place")]
    Missing {
        /// The change's path.
        path: String,
    },
    /// The place has another value than in the document that the diff was made from.
    #[error("{path}: the document has {found:?} there, not {expected:?}")]
    Conflict {
        /// The change's path.
        path: String,
        /// The value in the change.
        expected: String,
        /// The value in the document.
        found: String,
    },
    /// A place deeper than documents can be.
    #[error("{path}: more than {MAX_DEPTH} levels deep")]
    TooDeep {
        /// The change's path.
        path: String,
    },
    /// An attribute whose prefix has no namespace in the change, and one in the document.
    #[error("{path}: prefix {prefix} is not declared for it, but is in scope there")]
    Namespace {
        /// The change's path.
        path: String,
        /// The prefix.
        prefix: String,
    },
    /// The inserted text is not well-formed.
    #[error("{path}: the inserted text cannot be parsed: {error}")]
    Fragment {
        /// The change's path.
        path: String,
        /// The parser's error.
        error: ParseError,
    },
    /// The changed document could not be parsed again.
    #[error("the changed document cannot be parsed: {0}")]
    Unreadable(ParseError),
}

/// Applies all changes of one diff to the document that the diff was made from.
///
/// # Errors
/// [`ApplyError`] if a change does not fit the document.
pub fn apply(changes: &[Change], document: &Document) -> Result<Document, ApplyError> {
    let mut result = document.clone();
    let tree = ChangeTree::collect(changes)?;
    match tree.root() {
        Some(change) => result.root = fragment(change, None)?,
        None => edit(&mut result.root, &tree, None)?,
    }
    Document::parse_with(&result.render(), &Limits::unlimited()).map_err(ApplyError::Unreadable)
}

/// Recursion is bounded: no collected edit lies deeper than [`MAX_DEPTH`].
fn edit(
    element: &mut Element,
    tree: &ChangeTree<'_>,
    outer: Option<&Rc<Scope>>,
) -> Result<(), ApplyError> {
    let own = own_text(element);
    let wanted = match tree.text {
        Some(change) => {
            agrees(change, &own)?;
            change.after.clone().unwrap_or_default()
        }
        None => own,
    };
    for change in &tree.attributes {
        attribute(element, change, outer)?;
    }
    let inner = namespace_scope::enter(outer, element);
    edit_children(element, tree, inner.as_ref())?;
    // Whether white space counts as text depends on whether there are children.
    if own_text(element) != wanted {
        put_text(element, &wanted);
    }
    Ok(())
}

fn agrees(change: &Change, found: &str) -> Result<(), ApplyError> {
    let expected = change.before.as_deref().unwrap_or_default();
    if expected == found {
        return Ok(());
    }
    Err(ApplyError::Conflict {
        path: change.path.clone(),
        expected: expected.to_owned(),
        found: found.to_owned(),
    })
}

fn missing(change: &Change) -> ApplyError {
    ApplyError::Missing {
        path: change.path.clone(),
    }
}

fn put_text(element: &mut Element, text: &str) {
    let has_children = element.children().next().is_some();
    let nodes = element.nodes_mut();
    nodes.retain(|node| match node {
        Node::Text(_) => has_children && node.is_layout(),
        Node::CData(_) => false,
        Node::Element(_) | Node::Other(_) => true,
    });
    if text.is_empty() {
        return;
    }
    // Beside the text, layout would become part of it.
    let others = nodes.iter().position(|node| !node.is_layout());
    let layout = others.unwrap_or(nodes.len());
    nodes.drain(..layout);
    nodes.insert(0, Node::Text(Raw::written(escape::text(text))));
}

fn attribute(
    element: &mut Element,
    change: &Change,
    outer: Option<&Rc<Scope>>,
) -> Result<(), ApplyError> {
    let Some(Place {
        part: Part::Attribute(written),
        namespaces,
        ..
    }) = change.place.as_deref()
    else {
        return Err(missing(change));
    };
    let value = change.after.as_deref().unwrap_or_default();
    if change.kind == ChangeKind::Inserted {
        let name = match namespaces.first() {
            Some(binding) => attribute_name(element, change, written, binding, outer)?,
            None => written.clone(),
        };
        element.put_attr(&name, value);
        return Ok(());
    }
    let found = element.attr(written).ok_or_else(|| missing(change))?;
    agrees(change, &found)?;
    if change.kind == ChangeKind::Removed {
        element.remove_attr(written);
    } else {
        element.put_attr(written, value);
    }
    Ok(())
}

/// The name that gives an inserted attribute the namespace that it has in the document after.
fn attribute_name(
    element: &mut Element,
    change: &Change,
    written: &str,
    (prefix, uri): &Binding,
    outer: Option<&Rc<Scope>>,
) -> Result<String, ApplyError> {
    let scope = namespace_scope::enter(outer, element);
    let bound = |prefix: &str| namespace_scope::resolve(scope.as_ref(), prefix);
    if bound(prefix).as_deref() == uri.as_deref() {
        return Ok(written.to_owned());
    }
    let Some(uri) = uri else {
        return Err(ApplyError::Namespace {
            path: change.path.clone(),
            prefix: prefix.clone(),
        });
    };
    let free = |candidate: &String| bound(candidate).is_none() && !uses(element, candidate);
    let numbered = (1usize..).map(|n| format!("{prefix}{n}"));
    let fresh = std::iter::once(prefix.clone()).chain(numbered).find(free);
    let fresh = fresh.unwrap_or_else(|| prefix.clone());
    element.put_attr(&format!("xmlns:{fresh}"), uri);
    Ok(format!("{fresh}:{}", name::split(written).1))
}

/// Whether the element or a descendant uses the prefix.
fn uses(element: &Element, prefix: &str) -> bool {
    let mut pending = vec![element];
    while let Some(element) = pending.pop() {
        let is_it = |written: &str| name::split(written).0 == prefix;
        if is_it(element.tag_name()) || element.attributes().any(|a| is_it(a.name)) {
            return true;
        }
        pending.extend(element.children());
    }
    false
}

/// The inserted element, with the namespace declarations that it needs.
fn fragment(change: &Change, scope: Option<&Rc<Scope>>) -> Result<Element, ApplyError> {
    let text = change.after.as_deref().unwrap_or_default();
    let read = Document::parse_with(text, &Limits::unlimited());
    let mut element = read
        .map_err(|error| ApplyError::Fragment {
            path: change.path.clone(),
            error,
        })?
        .root;
    let place = change.place.as_deref();
    for (prefix, uri) in place.map_or(&[][..], |place| &place.namespaces) {
        if namespace_scope::resolve(scope, prefix).as_deref() != uri.as_deref() {
            declare(&mut element, prefix, uri.as_deref().unwrap_or_default());
        }
    }
    Ok(element)
}

fn declare(element: &mut Element, prefix: &str, uri: &str) {
    if prefix.is_empty() {
        element.put_attr("xmlns", uri);
    } else {
        element.put_attr(&format!("xmlns:{prefix}"), uri);
    }
}

/// Edits the children and their descendants.
fn edit_children(
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
            edit(&mut child, below, scope)?;
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
    order(nodes, &tree.ranks(), scope);
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

/// The changes of one element. Indices count its element children.
#[derive(Default)]
struct ChangeTree<'c> {
    attributes: Vec<&'c Change>,
    text: Option<&'c Change>,
    removed: BTreeMap<usize, &'c Change>,
    /// Moves, from the index before to the index after.
    moved: BTreeMap<usize, (usize, &'c Change)>,
    /// Insertions, by the index in the document after.
    inserted: BTreeMap<usize, &'c Change>,
    child_trees: BTreeMap<usize, ChangeTree<'c>>,
    root: Option<&'c Change>,
}

impl<'c> ChangeTree<'c> {
    fn collect(changes: &'c [Change]) -> Result<ChangeTree<'c>, ApplyError> {
        let mut tree = ChangeTree::default();
        for change in changes {
            tree.add(change)?;
        }
        Ok(tree)
    }

    /// The change that replaces the whole document, if there is one.
    fn root(&self) -> Option<&'c Change> {
        self.root
    }

    /// The first change among the children, if there is one.
    fn first_rearrangement(&self) -> Option<&'c Change> {
        let removed = self.removed.values().copied();
        let moved = self.moved.values().map(|(_, change)| *change);
        let mut all = removed.chain(moved).chain(self.inserted.values().copied());
        all.next()
    }

    /// Whether children are inserted, removed or moved.
    fn rearranges(&self) -> bool {
        self.first_rearrangement().is_some()
    }

    /// The ranks of inserted and moved children among those of their name, by the index in the document after.
    fn ranks(&self) -> HashMap<usize, usize> {
        let inserted = self.inserted.iter().map(|(to, change)| (*to, *change));
        let arrivals = inserted.chain(self.moved.values().copied());
        arrivals
            .filter_map(|(to, change)| Some((to, change.place.as_deref()?.rank)))
            .collect()
    }

    fn add(&mut self, change: &'c Change) -> Result<(), ApplyError> {
        let place = change.place.as_deref();
        let place = place.ok_or_else(|| ApplyError::NoPlace {
            path: change.path.clone(),
        })?;
        if place.before.len().max(place.after.len()) > MAX_DEPTH {
            let path = change.path.clone();
            return Err(ApplyError::TooDeep { path });
        }
        let parent = place.before.split_last();
        match (&place.part, change.kind) {
            (Part::Document, ChangeKind::Removed) => {}
            (Part::Document, _) => self.root = Some(change),
            (Part::Attribute(_), _) => self.tree_of(&place.before).attributes.push(change),
            (Part::Text, _) => self.tree_of(&place.before).text = Some(change),
            (Part::Element, ChangeKind::Inserted) => {
                let to = place.after.last().copied().unwrap_or_default();
                self.tree_of(&place.before).inserted.insert(to, change);
            }
            (Part::Element, ChangeKind::Removed) => {
                if let Some((from, parent)) = parent {
                    self.tree_of(parent).removed.insert(*from, change);
                }
            }
            (Part::Element, ChangeKind::Moved | ChangeKind::Edited) => {
                let to = place.after.last().copied().unwrap_or_default();
                if let Some((from, parent)) = parent {
                    self.tree_of(parent).moved.insert(*from, (to, change));
                }
            }
        }
        Ok(())
    }

    fn tree_of(&mut self, element_path: &[usize]) -> &mut ChangeTree<'c> {
        element_path.iter().fold(self, |tree, index| {
            tree.child_trees.entry(*index).or_default()
        })
    }

    /// Any change in this subtree, to name the place in an error.
    fn any(&self) -> Option<&'c Change> {
        let own = self.attributes.first().copied().or(self.text);
        own.or_else(|| self.first_rearrangement())
            .or_else(|| self.child_trees.values().find_map(ChangeTree::any))
    }
}

// The order among children of one name.
//
// A diff reports a changed order only among children of one name. The index of an inserted or moved child can
// therefore be before or after the wrong sibling of its name; its rank among the siblings of its name decides.

/// Puts each arrival at its rank among the children of its name, by exchanging children of that name. `ranks` has the
/// ranks of arrivals by their index among the children.
fn order(nodes: &mut [Node], ranks: &HashMap<usize, usize>, scope: Option<&Rc<Scope>>) {
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
