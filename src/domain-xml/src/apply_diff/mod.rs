//! Applies a diff to the document before, which gives the document after.
//!
//! [`diff`](crate::host::diff()) finds no difference between `apply(&diff(a, b), a)` and `b`. Parts that no change names keep
//! their bytes.

mod change_tree;
mod child_edits;
mod same_name_order;

use std::rc::Rc;

use crate::content_node::Node;
use crate::diff::namespace_scope::{self, Scope};
use crate::diff::{Binding, Part, Place, own_text};
use crate::host::{Change, ChangeKind};
use crate::source_text::Raw;
use crate::{Document, Element, Limits, MAX_DEPTH, ParseError, escape, name};
use change_tree::ChangeTree;

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
    child_edits::edit(element, tree, inner.as_ref())?;
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
