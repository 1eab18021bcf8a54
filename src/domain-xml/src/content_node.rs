//! `Node`: a part of an element's content (element, text, CDATA, comment, processing instruction).

use crate::Element;
use crate::byte_classes::{find, is_blank};
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

/// The kind and the length of the node at the start of the text.
pub(crate) fn node_at_start(text: &[u8]) -> (fn(Raw) -> Node, usize) {
    let (make, opening, closing): (fn(Raw) -> Node, usize, &[u8]) = match text {
        [b'<', b'!', b'[', ..] => (Node::CData, CDATA.len(), CDATA_END),
        [b'<', b'!', ..] => (Node::Other, COMMENT.len(), COMMENT_END),
        [b'<', b'?', ..] => (Node::Other, INSTRUCTION.len(), INSTRUCTION_END),
        _ => {
            let markup = text.iter().position(|byte| *byte == b'<');
            // Never zero, so that the caller makes progress.
            return (Node::Text, markup.unwrap_or(text.len()).max(1));
        }
    };
    let length = find(text, opening, closing).map_or(text.len(), |at| at + closing.len());
    (make, length)
}

pub(crate) const CDATA: &[u8] = b"<![CDATA[";
pub(crate) const CDATA_END: &[u8] = b"]]>";
pub(crate) const COMMENT: &[u8] = b"<!--";
pub(crate) const COMMENT_END: &[u8] = b"-->";
pub(crate) const INSTRUCTION: &[u8] = b"<?";
pub(crate) const INSTRUCTION_END: &[u8] = b"?>";
