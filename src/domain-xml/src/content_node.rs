//! The parts of an element's content.

use crate::Element;
use crate::byte_classes::is_blank;
use crate::source_text::Raw;

/// A part of an element's content, in its escaped form.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Element(Element),
    Text(Raw),
    /// A CDATA section, with `<![CDATA[` and `]]>`.
    CData(Raw),
    /// A comment or processing instruction.
    Other(Raw),
}

impl Node {
    pub(crate) fn element(&self) -> Option<&Element> {
        match self {
            Node::Element(element) => Some(element),
            _ => None,
        }
    }

    pub(crate) fn element_mut(&mut self) -> Option<&mut Element> {
        match self {
            Node::Element(element) => Some(element),
            _ => None,
        }
    }

    /// Whether the node is white space that only indents elements.
    pub(crate) fn is_layout(&self) -> bool {
        matches!(self, Node::Text(raw) if is_blank(raw.as_str()))
    }
}
