use std::borrow::Cow;

use crate::{escape, name, render};

/// An element with its attributes and children.
///
/// Names in look-ups are canonical: `qemu:commandline` finds the element whatever prefix the
/// document binds to libvirt's QEMU namespace.
#[derive(Debug, Clone)]
pub struct Element {
    pub(crate) name: String,
    /// The name with the canonical prefix, when the document uses another.
    pub(crate) canonical: Option<Box<str>>,
    pub(crate) attributes: Vec<Attribute>,
    /// White space between the last attribute and the end of the start tag.
    pub(crate) tail: Cow<'static, str>,
    pub(crate) end: End,
    pub(crate) nodes: Vec<Node>,
    /// Made by an edit, not read: its prefix may still need a declaration.
    pub(crate) made: bool,
    /// Put here by an edit: rendering gives it the line and indentation of its neighbours.
    pub(crate) aligned: bool,
}

/// How an element ends in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// `<a/>`
    SelfClosing,
    /// `<a></a>`, with the white space before the last `>`.
    Tag(Cow<'static, str>),
}

/// An attribute as it stands in the document.
#[derive(Debug, Clone)]
pub(crate) struct Attribute {
    /// White space before the name.
    pub(crate) lead: Cow<'static, str>,
    pub(crate) name: String,
    /// `=` with the white space around it.
    pub(crate) equals: Cow<'static, str>,
    pub(crate) quote: char,
    pub(crate) raw: String,
}

/// What an element contains, in its escaped form.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Element(Element),
    Text(String),
    /// With its `<![CDATA[` and `]]>`.
    CData(String),
    /// A comment or processing instruction.
    Other(String),
}

impl Element {
    /// An empty element. A character that cannot stand in a name becomes `_`.
    pub fn new(name: impl Into<String>) -> Element {
        let name = name.into();
        Element {
            name: name::sanitized(&name).into_owned(),
            canonical: None,
            attributes: Vec::new(),
            tail: Cow::Borrowed(""),
            end: End::SelfClosing,
            nodes: Vec::new(),
            made: true,
            aligned: false,
        }
    }

    /// The name as written, prefix included.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name with the prefix that libvirt documents for its namespace.
    pub fn canonical_name(&self) -> &str {
        self.canonical.as_deref().unwrap_or(&self.name)
    }

    /// Whether this is the element that paths call `name`.
    pub fn is(&self, name: &str) -> bool {
        self.canonical_name() == name
    }

    /// The value of an attribute, entities resolved.
    pub fn attr(&self, name: &str) -> Option<Cow<'_, str>> {
        self.attribute(name).map(Attribute::value)
    }

    /// Names and values of all attributes, in document order, namespace declarations included.
    pub fn attrs(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.attributes
            .iter()
            .map(|attribute| (attribute.name.as_str(), attribute.value()))
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes
            .iter()
            .find(|attribute| attribute.name == name)
    }

    /// The element's own character data, CDATA included, entities resolved; not its children's.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for node in &self.nodes {
            match node {
                Node::Text(raw) => out.push_str(&escape::plain_text(raw)),
                Node::CData(raw) => out.push_str(cdata(raw)),
                Node::Element(_) | Node::Other(_) => {}
            }
        }
        out
    }

    /// [`Element::text`] without the white space that only lays children out.
    pub(crate) fn text_without_layout(&self) -> String {
        let own = self.nodes.iter().filter(|node| !node.is_layout());
        own.fold(String::new(), |text, node| match node {
            Node::Text(raw) => text + &escape::plain_text(raw),
            Node::CData(raw) => text + cdata(raw),
            Node::Element(_) | Node::Other(_) => text,
        })
    }

    /// The child elements, in document order.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = &Element> {
        self.nodes.iter().filter_map(Node::element)
    }

    /// The child elements, to edit.
    pub fn children_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Element> {
        self.nodes.iter_mut().filter_map(Node::element_mut)
    }

    /// The first child of this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children().find(|child| child.is(name))
    }

    /// The first child of this name, to edit.
    pub fn child_mut(&mut self, name: &str) -> Option<&mut Element> {
        self.children_mut().find(|child| child.is(name))
    }

    /// All children of this name.
    pub fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children().filter(move |child| child.is(name))
    }

    /// This element alone as XML text.
    pub fn render(&self) -> String {
        render::element(self)
    }
}

/// The text inside `<![CDATA[...]]>`.
pub(crate) fn cdata(raw: &str) -> &str {
    raw.strip_prefix("<![CDATA[")
        .and_then(|rest| rest.strip_suffix("]]>"))
        .unwrap_or(raw)
}

/// Deep trees are taken apart on the heap, not on the stack.
impl Drop for Element {
    fn drop(&mut self) {
        if !self
            .nodes
            .iter()
            .any(|node| node.element().is_some_and(|e| !e.nodes.is_empty()))
        {
            return;
        }
        let mut pending = std::mem::take(&mut self.nodes);
        while let Some(node) = pending.pop() {
            if let Node::Element(mut element) = node {
                pending.append(&mut element.nodes);
            }
        }
    }
}

impl Attribute {
    pub(crate) fn value(&self) -> Cow<'_, str> {
        escape::plain_attribute(&self.raw)
    }
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

    /// White space that only lays the document out.
    pub(crate) fn is_layout(&self) -> bool {
        matches!(self, Node::Text(raw) if is_blank(raw))
    }
}

/// Whether `raw` is XML white space only.
pub(crate) fn is_blank(raw: &str) -> bool {
    raw.bytes()
        .all(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'))
}
