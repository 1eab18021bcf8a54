//! Line ends, indentation and quotes of a document, which inserted elements get.

use crate::Element;
use crate::byte_classes::is_blank;
use crate::content_node::Node;

/// The document's line ends and indentation.
pub(super) struct Layout {
    /// `\n` or `\r\n`.
    pub(super) line: &'static str,
    /// One level of indentation; `None` if the document is on one line.
    pub(super) unit: Option<String>,
    pub(super) quote: &'static str,
}

impl Layout {
    /// Derived from the white space before the root's first child.
    pub(super) fn of(root: &Element) -> Layout {
        let quote = first_quote(root);
        let before_child = root.nodes().iter().find_map(|node| match node {
            Node::Text(raw) if node.is_layout() => {
                let raw = raw.as_str();
                raw.rfind('\n').map(|n| (raw, n))
            }
            _ => None,
        });
        let Some((raw, n)) = before_child else {
            return Layout {
                line: "\n",
                unit: None,
                quote,
            };
        };
        let line = if raw[..n].ends_with('\r') {
            "\r\n"
        } else {
            "\n"
        };
        let unit = Some(raw[n + 1..].to_owned()).filter(|unit| !unit.is_empty());
        Layout {
            line,
            unit: Some(unit.unwrap_or_else(|| "  ".to_owned())),
            quote,
        }
    }
}

fn first_quote(root: &Element) -> &'static str {
    let tag = root.tag().as_bytes();
    let first = root.attributes().next();
    match first.and_then(|attribute| tag.get(attribute.to - 1)) {
        Some(b'"') => "\"",
        _ => "'",
    }
}

/// The layout of the children that were read.
pub(super) enum Neighbours {
    None,
    OnOneLine,
    /// On lines, with the indentation of the first child.
    OnLines(String),
}

pub(super) fn neighbour_indent(element: &Element) -> Neighbours {
    let mut found = Neighbours::None;
    let mut before: Option<&Node> = None;
    for node in element.nodes() {
        if node.element().is_some_and(|child| !child.aligned) {
            found = Neighbours::OnOneLine;
            if let Some(Node::Text(raw)) = before
                && let raw = raw.as_str()
                && is_blank(raw)
                && let Some(n) = raw.rfind('\n')
            {
                return Neighbours::OnLines(raw[n + 1..].to_owned());
            }
        }
        before = Some(node);
    }
    found
}
