//! The character data of an element.

use crate::content_node::Node;
use crate::{Element, escape};

impl Element {
    /// The element's own character data, CDATA included, entities resolved; not its children's.
    pub fn text(&self) -> String {
        self.text_of(|_| true)
    }

    /// The bytes of [`Element::text`] as they are written.
    pub(crate) fn text_bytes(&self) -> usize {
        let bytes = self.nodes().iter().map(|node| match node {
            Node::Text(raw) | Node::CData(raw) => raw.as_str().len(),
            Node::Element(_) | Node::Other(_) => 0,
        });
        bytes.sum()
    }

    /// [`Element::text`] without the white space that only indents children.
    pub(crate) fn text_without_layout(&self) -> String {
        self.text_of(|node| !node.is_layout())
    }

    fn text_of(&self, counts: impl Fn(&Node) -> bool) -> String {
        let mut out = String::new();
        for node in self.nodes().iter().filter(|node| counts(node)) {
            match node {
                Node::Text(raw) => out.push_str(&escape::plain_text(raw.as_str())),
                Node::CData(raw) => out.push_str(&escape::line_ends(cdata(raw.as_str()))),
                Node::Element(_) | Node::Other(_) => {}
            }
        }
        out
    }

    /// Whether there is character data other than white space that indents children.
    pub(crate) fn has_text(&self) -> bool {
        self.nodes().iter().any(|node| match node {
            Node::Text(_) => !node.is_layout(),
            Node::CData(_) => true,
            Node::Element(_) | Node::Other(_) => false,
        })
    }
}

/// The text inside `<![CDATA[...]]>`.
fn cdata(raw: &str) -> &str {
    raw.strip_prefix("<![CDATA[")
        .and_then(|rest| rest.strip_suffix("]]>"))
        .unwrap_or(raw)
}
