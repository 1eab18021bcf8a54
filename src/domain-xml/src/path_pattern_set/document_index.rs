//! Where elements are in a document, and what distinguishes them from their siblings.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use crate::Element;
use crate::diff::element_keys::Parts;
use crate::diff::namespace_scope::{self, Scope};
use crate::diff::sibling_index::SiblingIndex;
use crate::path::NameTest;

/// Up to this many nodes are counted one by one, which is faster than a look-up in the list of children.
const COUNTED_NODES_MAX: usize = 16;

/// An element and its position in a document.
#[derive(Clone)]
pub struct ElementAt<'a> {
    /// The element.
    pub element: &'a Element,
    /// Its parent; `None` for the root.
    pub parent: Option<&'a Element>,
    /// The index among the element children of the parent.
    index: usize,
    /// The namespaces outside and inside of the element.
    around: Option<Rc<Scope>>,
    inside: Option<Rc<Scope>>,
}

/// One document. The children and siblings of a large element are looked up once, because a hostile hook can change
/// every child.
pub struct DocumentIndex<'a> {
    root: &'a Element,
    children: HashMap<*const Element, Vec<&'a Element>>,
    siblings: HashMap<*const Element, SiblingIndex<'a>>,
    positions: HashMap<*const Element, Vec<Position>>,
}

/// Positions of a child among its siblings, from 1.
#[derive(Clone, Copy)]
struct Position {
    of_name: usize,
    of_prefix: usize,
}

/// How predicates fail to tell an element from its siblings.
pub(super) struct Ambiguity {
    /// Whether they fail whatever they ask for.
    pub(super) always: bool,
    /// The keys that do not distinguish it.
    pub(super) keys: Vec<Parts>,
}

impl fmt::Debug for DocumentIndex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentIndex")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl<'a> DocumentIndex<'a> {
    /// An index of the document with this root.
    pub fn new(root: &'a Element) -> DocumentIndex<'a> {
        DocumentIndex {
            root,
            children: HashMap::new(),
            siblings: HashMap::new(),
            positions: HashMap::new(),
        }
    }

    /// The root.
    pub fn root(&self) -> ElementAt<'a> {
        ElementAt {
            element: self.root,
            parent: None,
            index: 0,
            around: None,
            inside: namespace_scope::enter(None, self.root),
        }
    }

    /// A child by its index among the element children.
    pub fn child(&mut self, parent: &ElementAt<'a>, index: usize) -> Option<ElementAt<'a>> {
        let element = self.nth_child(parent.element, index)?;
        Some(ElementAt {
            element,
            parent: Some(parent.element),
            index,
            around: parent.inside.clone(),
            inside: namespace_scope::enter(parent.inside.as_ref(), element),
        })
    }

    fn nth_child(&mut self, parent: &'a Element, index: usize) -> Option<&'a Element> {
        if parent.nodes().len() <= COUNTED_NODES_MAX {
            return parent.children().nth(index);
        }
        let children = self.children.entry(std::ptr::from_ref(parent));
        let children = children.or_insert_with(|| parent.children().collect());
        children.get(index).copied()
    }

    /// How predicates fail to tell which element this is.
    pub(super) fn ambiguity(&mut self, at: &ElementAt<'a>) -> Ambiguity {
        let Some(parent) = at.parent else {
            return Ambiguity {
                always: false,
                keys: Vec::new(),
            };
        };
        let siblings = self.siblings.entry(std::ptr::from_ref(parent));
        let siblings = siblings.or_insert_with(|| SiblingIndex::new(parent, at.around.as_ref()));
        let (always, keys) = siblings.ambiguity(at.index);
        Ambiguity { always, keys }
    }

    /// The place among the siblings that the name accepts, from 1; 0 if it does not accept this element.
    pub(super) fn position(&mut self, at: &ElementAt<'a>, name: &NameTest) -> usize {
        let Some(parent) = at.parent else {
            return 1;
        };
        if *name == NameTest::Any {
            return at.index + 1;
        }
        let positions = self.positions.entry(std::ptr::from_ref(parent));
        let positions = positions.or_insert_with(|| positions_below(parent));
        let Some(position) = positions.get(at.index) else {
            return 0;
        };
        let own = at.element.canonical_name();
        match name {
            NameTest::Exact(exact) if exact == own => position.of_name,
            NameTest::Prefix(prefix) if *prefix == prefix_of(own) => position.of_prefix,
            _ => 0,
        }
    }
}

/// `qemu:` of `qemu:arg`; empty without a prefix.
fn prefix_of(name: &str) -> &str {
    name.find(':').map_or("", |colon| &name[..=colon])
}

fn positions_below(parent: &Element) -> Vec<Position> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut prefixes: HashMap<&str, usize> = HashMap::new();
    let mut positions = Vec::new();
    for child in parent.children() {
        let name = child.canonical_name();
        let of_name = names.entry(name).or_default();
        let of_prefix = prefixes.entry(prefix_of(name)).or_default();
        *of_name += 1;
        *of_prefix += 1;
        positions.push(Position {
            of_name: *of_name,
            of_prefix: *of_prefix,
        });
    }
    positions
}
