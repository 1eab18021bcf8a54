//! Standard traits of elements: copies, comparison, text, and the end of deep trees.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::content_node::Node;
use crate::{Document, Element, ParseError};

/// Unedited elements are copied as positions in the text.
impl Clone for Element {
    fn clone(&self) -> Element {
        let nodes = if self.as_read().is_some() {
            OnceLock::new()
        } else {
            self.nodes.clone()
        };
        Element {
            origin: self.origin.clone(),
            tag: self.tag.clone(),
            placed: self.placed.clone(),
            nodes,
            ..*self
        }
    }
}

/// Elements are equal if their texts are.
impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.render() == other.render()
    }
}

impl Eq for Element {}

/// The element as XML text.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

/// As [`Element::parse`].
impl FromStr for Element {
    type Err = ParseError;

    fn from_str(xml: &str) -> Result<Element, ParseError> {
        Element::parse(xml)
    }
}

/// Elements and documents can be sent to, and shared with, other threads.
const _: fn() = || {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Element>();
    is_send_and_sync::<Document>();
};

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Element").field(&self.render()).finish()
    }
}

/// Drops deep trees without recursion.
impl Drop for Element {
    fn drop(&mut self) {
        let holds = |nodes: &Vec<Node>| !nodes.is_empty();
        let has_grandchildren = |nodes: &Vec<Node>| {
            let mut children = nodes.iter().filter_map(Node::element);
            children.any(|child| child.nodes.get().is_some_and(holds))
        };
        if !self.nodes.get().is_some_and(has_grandchildren) {
            return;
        }
        let mut pending = self.nodes.take().unwrap_or_default();
        while let Some(node) = pending.pop() {
            if let Node::Element(mut element) = node
                && let Some(nodes) = element.nodes.get_mut()
            {
                pending.append(nodes);
            }
        }
    }
}
