//! Adds children: at the end, beside a sibling, or in the order of a schema.

use crate::Element;
use crate::content_node::Node;
use crate::insertion_namespace_scope::{self, InsertionScope};

impl Element {
    /// Adds a child after the last one and returns it to edit.
    pub fn append(&mut self, child: Element) -> &mut Element {
        let nodes = self.nodes();
        let at = nodes.len() - usize::from(nodes.last().is_some_and(Node::is_layout));
        self.place(at, child)
    }

    /// Adds a child as the first one.
    pub fn prepend(&mut self, child: Element) -> &mut Element {
        match self.position(|_| true) {
            Some(first) => self.place_before(first, child),
            None => self.append(child),
        }
    }

    /// Adds a child before the first one named `sibling`, or as the last one if there is none.
    pub fn insert_before(&mut self, sibling: &str, child: Element) -> &mut Element {
        match self.position(|element| element.is(sibling)) {
            Some(at) => self.place_before(at, child),
            None => self.append(child),
        }
    }

    /// Adds a child after the last one named `sibling`, or as the last one if there is none.
    pub fn insert_after(&mut self, sibling: &str, child: Element) -> &mut Element {
        match self.last_position(|element| element.is(sibling)) {
            Some(at) => self.place(at + 1, child),
            None => self.append(child),
        }
    }

    /// The node index of the first matching child.
    pub(crate) fn position(&self, fits: impl Fn(&Element) -> bool) -> Option<usize> {
        let nodes = self.nodes();
        nodes
            .iter()
            .position(|node| node.element().is_some_and(&fits))
    }

    fn last_position(&self, fits: impl Fn(&Element) -> bool) -> Option<usize> {
        let nodes = self.nodes();
        nodes
            .iter()
            .rposition(|node| node.element().is_some_and(&fits))
    }

    /// Adds a child in schema order: after the last child that `order` puts before it or that has the same name.
    /// Children that `order` does not list are ignored.
    pub fn insert_ordered(&mut self, child: Element, order: &[&str]) -> &mut Element {
        let rank = |name: &str| order.iter().position(|listed| *listed == name);
        let Some(own) = rank(child.canonical_name()) else {
            return self.append(child);
        };
        let ranks = |element: &Element| rank(element.canonical_name());
        if let Some(at) = self.last_position(|element| ranks(element).is_some_and(|r| r <= own)) {
            return self.place(at + 1, child);
        }
        match self.position(|element| ranks(element).is_some()) {
            Some(at) => self.place_before(at, child),
            None => self.append(child),
        }
    }

    /// The first child of this name, added as the last one if there is none.
    ///
    /// # Panics
    /// If there is none, and `name` is not a name in XML.
    #[track_caller]
    pub fn ensure_child(&mut self, name: &str) -> &mut Element {
        match self.position(|element| element.is(name)) {
            Some(at) => self.element_at(at),
            None => self.append(Element::new(name)),
        }
    }

    /// The first child of this name, added in schema order if there is none.
    ///
    /// # Panics
    /// If there is none, and `name` is not a name in XML.
    #[track_caller]
    pub fn ensure_child_ordered(&mut self, name: &str, order: &[&str]) -> &mut Element {
        match self.position(|element| element.is(name)) {
            Some(at) => self.element_at(at),
            None => self.insert_ordered(Element::new(name), order),
        }
    }

    /// Inserts a child before the node at `at` and the white space in front of it.
    fn place_before(&mut self, at: usize, child: Element) -> &mut Element {
        let led = at > 0 && self.nodes()[at - 1].is_layout();
        self.place(at - usize::from(led), child)
    }

    fn place(&mut self, at: usize, mut child: Element) -> &mut Element {
        child.aligned = true;
        insertion_namespace_scope::apply_prefixes(&mut child, InsertionScope::inside(self));
        self.nodes_mut().insert(at, Node::Element(child));
        self.element_at(at)
    }

    /// The child element at a node index.
    pub(crate) fn element_at(&mut self, at: usize) -> &mut Element {
        match &mut self.nodes_mut()[at] {
            Node::Element(element) => element,
            _ => unreachable!("the index was found by looking for an element"),
        }
    }
}
