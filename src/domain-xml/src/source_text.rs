//! A text that was read, and the positions of its elements. An unedited tree consists of these alone.

use std::sync::Arc;

use crate::Element;
use crate::content_node::{Node, node_at_start};

/// A well-formed text. Its elements and texts share it.
#[derive(Debug)]
pub(crate) struct Source {
    text: Box<str>,
    /// In document order: an element's descendants follow it.
    elements: Vec<Span>,
    /// Elements whose canonical prefix differs from the written one, ascending.
    canonical: Vec<(u32, Box<str>)>,
    /// Elements that may declare namespaces, ascending.
    declaring: Vec<u32>,
}

/// An element's position, in bytes of the text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    /// The element's `<`.
    pub(crate) start: u32,
    pub(crate) name_end: u32,
    /// After the `>` of its start tag.
    pub(crate) body: u32,
    /// The `</` of its end tag; `body` if it has none.
    pub(crate) body_end: u32,
    /// After the element.
    pub(crate) end: u32,
    /// The first element after this one that is not inside it.
    pub(crate) next: u32,
}

/// The elements of a text, all lists ascending. The first element is the root.
#[derive(Debug, Default)]
pub(crate) struct ElementTable {
    pub(crate) elements: Vec<Span>,
    pub(crate) canonical: Vec<(u32, Box<str>)>,
    pub(crate) declaring: Vec<u32>,
}

impl Source {
    pub(crate) fn new(text: Box<str>, table: ElementTable) -> Source {
        Source {
            text,
            elements: table.elements,
            canonical: table.canonical,
            declaring: table.declaring,
        }
    }
}

/// A part of a text that was read, or an owned text.
#[derive(Debug, Clone)]
pub(crate) enum Raw {
    Read {
        source: Arc<Source>,
        from: u32,
        to: u32,
    },
    Written(Box<str>),
}

impl Default for Raw {
    fn default() -> Raw {
        Raw::Written(Box::default())
    }
}

impl Raw {
    pub(crate) fn written(text: String) -> Raw {
        Raw::Written(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Raw::Read { source, from, to } => slice(&source.text, *from, *to),
            Raw::Written(text) => text,
        }
    }
}

fn slice(text: &str, from: u32, to: u32) -> &str {
    text.get(from as usize..to as usize).unwrap_or_default()
}

/// An element as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    source: Arc<Source>,
    index: u32,
    span: Span,
}

impl Origin {
    /// The root element, with the text before and after it.
    pub(crate) fn root(source: Source) -> (Raw, Origin, Raw) {
        let source = Arc::new(source);
        let span = source.elements.first().copied().unwrap_or_default();
        let end = source.text.len() as u32;
        let beside = |from, to| Raw::Read {
            source: source.clone(),
            from,
            to,
        };
        let (prolog, epilog) = (beside(0, span.start), beside(span.end, end));
        let root = Origin {
            source,
            index: 0,
            span,
        };
        (prolog, root, epilog)
    }

    fn slice(&self, from: u32, to: u32) -> &str {
        slice(&self.source.text, from, to)
    }

    /// The whole element, tags included.
    pub(crate) fn text(&self) -> &str {
        self.slice(self.span.start, self.span.end)
    }

    pub(crate) fn name(&self) -> &str {
        self.slice(self.span.start + 1, self.span.name_end)
    }

    /// The name with the canonical prefix, if the document uses another.
    pub(crate) fn canonical(&self) -> Option<&str> {
        let known = &self.source.canonical;
        if known.is_empty() {
            return None;
        }
        let at = known.binary_search_by_key(&self.index, |(index, _)| *index);
        Some(&known.get(at.ok()?)?.1)
    }

    /// Whether the element may declare namespaces.
    pub(crate) fn may_declare(&self) -> bool {
        self.source.declaring.binary_search(&self.index).is_ok()
    }

    /// The ancestors that may declare namespaces, outermost first.
    pub(crate) fn declaring_around(&self) -> impl Iterator<Item = Origin> {
        let outside = self
            .source
            .declaring
            .iter()
            .take_while(|at| **at < self.index);
        outside.filter_map(|index| {
            let span = *self.source.elements.get(*index as usize)?;
            (self.index < span.next).then(|| Origin {
                source: self.source.clone(),
                index: *index,
                span,
            })
        })
    }

    /// The start tag without `<` and `>` or `/>`.
    pub(crate) fn tag(&self) -> &str {
        let closing = 1 + u32::from(!self.has_end_tag());
        self.slice(self.span.start + 1, self.span.body - closing)
    }

    pub(crate) fn has_end_tag(&self) -> bool {
        self.span.end > self.span.body_end
    }

    /// The white space before the `>` of the end tag.
    pub(crate) fn end_space(&self) -> &str {
        if !self.has_end_tag() {
            return "";
        }
        let name = self.span.name_end - self.span.start - 1;
        self.slice(self.span.body_end + 2 + name, self.span.end - 1)
    }

    /// The content: the children as they were read, and the nodes between them.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let mut nodes = Vec::with_capacity(self.node_estimate());
        let mut at = self.span.body;
        for child in self.children() {
            self.between(at, child.span.start, &mut nodes);
            at = child.span.end;
            nodes.push(Node::Element(Element::read(child)));
        }
        self.between(at, self.span.body_end, &mut nodes);
        nodes
    }

    /// An estimate: each child, and the white space around it.
    fn node_estimate(&self) -> usize {
        let children = self.spans().count();
        2 * children + usize::from(self.span.body < self.span.body_end)
    }

    fn spans(&self) -> impl Iterator<Item = (u32, Span)> {
        let mut index = self.index + 1;
        let elements = &self.source.elements;
        std::iter::from_fn(move || {
            let span = *elements
                .get(index as usize)
                .filter(|_| index < self.span.next)?;
            let child = (index, span);
            index = span.next;
            Some(child)
        })
    }

    fn children(&self) -> impl Iterator<Item = Origin> {
        self.spans().map(|(index, span)| Origin {
            source: self.source.clone(),
            index,
            span,
        })
    }

    /// Texts, CDATA, comments and processing instructions between two elements.
    fn between(&self, mut at: u32, end: u32, nodes: &mut Vec<Node>) {
        while at < end {
            let rest = self.slice(at, end).as_bytes();
            let (make, length) = node_at_start(rest);
            let to = at + length as u32;
            nodes.push(make(Raw::Read {
                source: self.source.clone(),
                from: at,
                to,
            }));
            at = to;
        }
    }
}
