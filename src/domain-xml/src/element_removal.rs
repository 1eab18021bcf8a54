//! Removes children, with the white space that indented them.

use crate::Element;
use crate::content_node::Node;

impl Element {
    /// Removes the first child of this name and returns it.
    pub fn remove_child(&mut self, name: &str) -> Option<Element> {
        let at = self.position(|element| element.is(name))?;
        let removed = self.nodes_mut().remove(at);
        self.close_gap(at);
        match removed {
            Node::Element(element) => Some(element),
            _ => None,
        }
    }

    /// Removes the node at an index.
    pub(crate) fn remove_node(&mut self, at: usize) -> bool {
        let found = at < self.nodes().len();
        if found {
            self.nodes_mut().remove(at);
            self.close_gap(at);
        }
        found
    }

    /// Removes the children that `unwanted` selects, with their lines, and returns their number.
    pub fn remove_children(&mut self, mut unwanted: impl FnMut(&Element) -> bool) -> usize {
        let nodes = self.nodes_mut();
        let mut kept: Vec<Node> = Vec::with_capacity(nodes.len());
        let mut removed = 0;
        for node in std::mem::take(nodes) {
            if !node.element().is_some_and(&mut unwanted) {
                kept.push(node);
                continue;
            }
            removed += 1;
            if kept.last().is_some_and(Node::is_layout) {
                kept.pop();
            }
        }
        *nodes = kept;
        if removed > 0 {
            drop_lone_layout(nodes);
        }
        removed
    }

    /// Removes the white space before a removed node.
    fn close_gap(&mut self, at: usize) {
        let nodes = self.nodes_mut();
        if at > 0 && nodes[at - 1].is_layout() {
            nodes.remove(at - 1);
        }
        drop_lone_layout(nodes);
    }
}

fn drop_lone_layout(nodes: &mut Vec<Node>) {
    if nodes.iter().all(Node::is_layout) {
        nodes.clear();
    }
}
