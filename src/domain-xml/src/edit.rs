use std::borrow::Cow;

use crate::element::{Attribute, End, Node};
use crate::{Element, escape, name};

/// Editing. Whatever an edit does not name keeps its bytes; elements that are added get the
/// line and indentation of their neighbours when the document is rendered.
impl Element {
    /// Sets an attribute: in place when there is one of this name, else after the last.
    /// The same value again changes nothing, not even the quotes.
    pub fn set_attr(&mut self, name: &str, value: impl AsRef<str>) -> &mut Element {
        let value = value.as_ref();
        let quote = self.quote();
        match self
            .attributes
            .iter_mut()
            .find(|attribute| attribute.name == name)
        {
            Some(attribute) if attribute.value() == value => {}
            Some(attribute) => attribute.raw = escape::attribute(value, attribute.quote),
            None => self.attributes.push(Attribute {
                lead: Cow::Borrowed(" "),
                name: name::sanitized(name).into_owned(),
                equals: Cow::Borrowed("="),
                quote,
                raw: escape::attribute(value, quote),
            }),
        }
        self
    }

    fn quote(&self) -> char {
        self.attributes
            .last()
            .map_or('\'', |attribute| attribute.quote)
    }

    /// Removes an attribute and gives its value.
    pub fn remove_attr(&mut self, name: &str) -> Option<String> {
        let at = self
            .attributes
            .iter()
            .position(|attribute| attribute.name == name)?;
        Some(self.attributes.remove(at).value().into_owned())
    }

    /// Replaces the element's own character data. Child elements and comments stay.
    /// The same text again changes nothing, not even its entities.
    pub fn set_text(&mut self, text: impl AsRef<str>) -> &mut Element {
        let text = text.as_ref();
        if self.text() == text {
            return self;
        }
        let keeps_layout = self.children().next().is_some();
        let is_text = |node: &Node| match node {
            Node::Text(_) => !(keeps_layout && node.is_layout()),
            Node::CData(_) => true,
            Node::Element(_) | Node::Other(_) => false,
        };
        let at = self.nodes.iter().position(is_text).unwrap_or(0);
        self.nodes.retain(|node| !is_text(node));
        if !text.is_empty() {
            self.nodes.insert(at, Node::Text(escape::text(text)));
        }
        self
    }

    /// Builder form of [`Element::set_attr`].
    #[must_use]
    pub fn with_attr(mut self, name: &str, value: impl AsRef<str>) -> Element {
        self.set_attr(name, value);
        self
    }

    /// Builder form of [`Element::set_text`].
    #[must_use]
    pub fn with_text(mut self, text: impl AsRef<str>) -> Element {
        self.set_text(text);
        self
    }

    /// Builder form of [`Element::append`].
    #[must_use]
    pub fn with_child(mut self, child: Element) -> Element {
        self.append(child);
        self
    }

    /// Adds a child after the last one and gives it back to edit.
    pub fn append(&mut self, child: Element) -> &mut Element {
        let at = self.nodes.len() - usize::from(self.nodes.last().is_some_and(Node::is_layout));
        self.place(at, child)
    }

    /// Adds a child as the first one.
    pub fn prepend(&mut self, child: Element) -> &mut Element {
        match self.nodes.iter().position(|node| node.element().is_some()) {
            Some(first) => self.place_before(first, child),
            None => self.append(child),
        }
    }

    /// Adds a child before the first one named `sibling`, or as the last when there is none.
    pub fn insert_before(&mut self, sibling: &str, child: Element) -> &mut Element {
        let found = self
            .nodes
            .iter()
            .position(|node| node.element().is_some_and(|e| e.is(sibling)));
        match found {
            Some(at) => self.place_before(at, child),
            None => self.append(child),
        }
    }

    /// Adds a child after the last one named `sibling`, or as the last when there is none.
    pub fn insert_after(&mut self, sibling: &str, child: Element) -> &mut Element {
        let found = self
            .nodes
            .iter()
            .rposition(|node| node.element().is_some_and(|e| e.is(sibling)));
        match found {
            Some(at) => self.place(at + 1, child),
            None => self.append(child),
        }
    }

    /// Adds a child where a schema wants it: after the last child that `order` puts before it
    /// or that has the same name. Names that `order` does not list do not matter.
    pub fn insert_ordered(&mut self, child: Element, order: &[&str]) -> &mut Element {
        let rank = |name: &str| order.iter().position(|listed| *listed == name);
        let Some(own) = rank(child.canonical_name()) else {
            return self.append(child);
        };
        let ranks = |node: &Node| node.element().and_then(|e| rank(e.canonical_name()));
        if let Some(at) = self
            .nodes
            .iter()
            .rposition(|node| ranks(node).is_some_and(|r| r <= own))
        {
            return self.place(at + 1, child);
        }
        match self.nodes.iter().position(|node| ranks(node).is_some()) {
            Some(at) => self.place_before(at, child),
            None => self.append(child),
        }
    }

    /// The first child of this name, added as the last one when there is none.
    pub fn ensure_child(&mut self, name: &str) -> &mut Element {
        self.ensure_child_with(name, |parent| parent.append(Element::new(name)))
    }

    /// The first child of this name, added where `order` wants it when there is none.
    pub fn ensure_child_ordered(&mut self, name: &str, order: &[&str]) -> &mut Element {
        self.ensure_child_with(name, |parent| {
            parent.insert_ordered(Element::new(name), order)
        })
    }

    fn ensure_child_with(
        &mut self,
        name: &str,
        add: impl FnOnce(&mut Element) -> &mut Element,
    ) -> &mut Element {
        match self
            .nodes
            .iter()
            .position(|node| node.element().is_some_and(|e| e.is(name)))
        {
            Some(at) => element_at(&mut self.nodes, at),
            None => add(self),
        }
    }

    /// Removes the first child of this name and gives it back.
    pub fn remove_child(&mut self, name: &str) -> Option<Element> {
        let at = self
            .nodes
            .iter()
            .position(|node| node.element().is_some_and(|e| e.is(name)))?;
        let removed = self.nodes.remove(at);
        self.close_gap(at);
        match removed {
            Node::Element(element) => Some(element),
            _ => None,
        }
    }

    /// Removes the node at an index that a selection gave.
    pub(crate) fn remove_node(&mut self, at: usize) -> bool {
        let found = at < self.nodes.len();
        if found {
            self.nodes.remove(at);
            self.close_gap(at);
        }
        found
    }

    /// Removes the children that `unwanted` picks, with the lines they stood on, and counts them.
    pub fn remove_children(&mut self, mut unwanted: impl FnMut(&Element) -> bool) -> usize {
        let mut kept: Vec<Node> = Vec::with_capacity(self.nodes.len());
        let mut removed = 0;
        for node in std::mem::take(&mut self.nodes) {
            if !node.element().is_some_and(&mut unwanted) {
                kept.push(node);
                continue;
            }
            removed += 1;
            if kept.last().is_some_and(Node::is_layout) {
                kept.pop();
            }
        }
        self.nodes = kept;
        if removed > 0 {
            self.drop_lone_layout();
        }
        removed
    }

    /// Removes the white space that led to a node now gone.
    fn close_gap(&mut self, at: usize) {
        if at > 0 && self.nodes[at - 1].is_layout() {
            self.nodes.remove(at - 1);
        }
        self.drop_lone_layout();
    }

    fn drop_lone_layout(&mut self) {
        if self.nodes.iter().all(Node::is_layout) {
            self.nodes.clear();
        }
    }

    /// Puts a child before the node at `at`, and before the white space that leads to it.
    fn place_before(&mut self, at: usize, child: Element) -> &mut Element {
        let led = at > 0 && self.nodes[at - 1].is_layout();
        self.place(at - usize::from(led), child)
    }

    fn place(&mut self, at: usize, mut child: Element) -> &mut Element {
        child.aligned = true;
        self.nodes.insert(at, Node::Element(child));
        element_at(&mut self.nodes, at)
    }

    /// Whether nothing but its name has been given to the element.
    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty() && self.nodes.iter().all(Node::is_layout)
    }

    /// Makes `<a></a>` of `<a/>`, for readers that care.
    pub fn expand(&mut self) -> &mut Element {
        if self.end == End::SelfClosing {
            self.end = End::Tag(Cow::Borrowed(""));
        }
        self
    }
}

/// The element at an index that is known to hold one.
pub(crate) fn element_at(nodes: &mut [Node], at: usize) -> &mut Element {
    match &mut nodes[at] {
        Node::Element(element) => element,
        _ => unreachable!("the index was found by looking for an element"),
    }
}
