use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use crate::bytes::is_blank;
use crate::scope::Placed;
use crate::source::{Origin, Raw};
use crate::tag::{Attribute, Attributes};
use crate::{escape, name, render, tag};

/// An element with its attributes and children.
///
/// Names in look-ups are canonical: `qemu:commandline` finds the element whatever prefix the
/// document binds to libvirt's QEMU namespace. An element that is added under such a name is written
/// with the document's own prefix.
///
/// An element that was read is a place in its text until somebody looks into it or edits it.
pub struct Element {
    /// Where it was read; none when an edit made it.
    pub(crate) origin: Option<Origin>,
    /// What stands between `<` and `>` of its start tag, when that is not what was read.
    pub(crate) tag: Option<Box<str>>,
    /// Where an edit put it, when that one made it and prefixes mean something there.
    pub(crate) placed: Option<Box<Placed>>,
    /// What it contains, once somebody looked.
    nodes: OnceLock<Vec<Node>>,
    /// Whether something in it may be other than it was read.
    touched: bool,
    /// Whether it gets an end tag even when it is empty.
    pub(crate) expanded: bool,
    /// Put here by an edit: rendering gives it the line and indentation of its neighbours.
    pub(crate) aligned: bool,
}

/// What an element contains, in its escaped form.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Element(Element),
    Text(Raw),
    /// With its `<![CDATA[` and `]]>`.
    CData(Raw),
    /// A comment or processing instruction.
    Other(Raw),
}

impl Element {
    /// An empty element. A character that cannot stand in a name becomes `_`.
    pub fn new(name: impl AsRef<str>) -> Element {
        let name = name::sanitized(name.as_ref());
        Element::with(None, Some(name.into_owned().into()))
    }

    pub(crate) fn read(origin: Origin) -> Element {
        Element::with(Some(origin), None)
    }

    fn with(origin: Option<Origin>, tag: Option<Box<str>>) -> Element {
        Element {
            origin,
            tag,
            placed: None,
            nodes: OnceLock::new(),
            touched: false,
            expanded: false,
            aligned: false,
        }
    }

    /// Whether an edit made it, so that its prefix may still need a declaration.
    pub(crate) fn is_made(&self) -> bool {
        self.origin.is_none()
    }

    /// The whole element in the text that it was read from, if nothing in it was edited since.
    pub(crate) fn as_read(&self) -> Option<&str> {
        let origin = self.origin.as_ref()?;
        let edited = self.touched || self.expanded || self.tag.is_some();
        (!edited).then(|| origin.text())
    }

    /// What stands between `<` and `>` of the start tag.
    pub(crate) fn tag(&self) -> &str {
        match (&self.tag, &self.origin) {
            (Some(tag), _) => tag,
            (None, Some(origin)) => origin.tag(),
            (None, None) => "",
        }
    }

    /// The name as written, prefix included.
    pub fn name(&self) -> &str {
        match &self.origin {
            Some(origin) => origin.name(),
            None => tag::name(self.tag()),
        }
    }

    /// The name with the prefix that libvirt documents for its namespace.
    pub fn canonical_name(&self) -> &str {
        let read = self.origin.as_ref().and_then(Origin::canonical);
        let made = || self.placed.as_ref()?.canonical.as_deref();
        read.or_else(made).unwrap_or_else(|| self.name())
    }

    /// Writes another name into the start tag of an element that an edit made.
    pub(crate) fn rename(&mut self, name: &str) {
        if self.name() != name {
            let attributes = &self.tag()[self.name().len()..];
            self.tag = Some([name, attributes].concat().into());
        }
    }

    /// Whether this is the element that paths call `name`.
    pub fn is(&self, name: &str) -> bool {
        self.canonical_name() == name
    }

    /// The value of an attribute, entities resolved.
    pub fn attr(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(self.attribute(name)?.value())
    }

    /// Names and values of all attributes, in document order, namespace declarations included.
    pub fn attrs(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.attributes()
            .map(|attribute| (attribute.name, attribute.value()))
    }

    pub(crate) fn attributes(&self) -> Attributes<'_> {
        Attributes::of(self.tag(), self.name().len())
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<Attribute<'_>> {
        self.attributes().find(|attribute| attribute.name == name)
    }

    /// The prefixes that the element declares, with what they stand for.
    pub(crate) fn declarations(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let none = self.tag.is_none() && !self.origin.as_ref().is_some_and(Origin::may_declare);
        let attributes = (!none).then(|| self.attributes());
        attributes.into_iter().flatten().filter_map(|attribute| {
            let prefix = name::declared_prefix(attribute.name)?;
            Some((prefix, attribute.value()))
        })
    }

    /// What the element contains.
    pub(crate) fn nodes(&self) -> &[Node] {
        let read = || self.origin.as_ref().map_or_else(Vec::new, Origin::nodes);
        self.nodes.get_or_init(read)
    }

    /// What the element contains, to edit.
    pub(crate) fn nodes_mut(&mut self) -> &mut Vec<Node> {
        self.touched = true;
        self.nodes();
        match self.nodes.get_mut() {
            Some(nodes) => nodes,
            None => unreachable!("they were just looked at"),
        }
    }

    /// The element's own character data, CDATA included, entities resolved; not its children's.
    pub fn text(&self) -> String {
        self.text_of(|_| true)
    }

    /// [`Element::text`] without the white space that only lays children out.
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

    /// Whether there is more character data than the white space that lays children out.
    pub(crate) fn has_text(&self) -> bool {
        self.nodes().iter().any(|node| match node {
            Node::Text(_) => !node.is_layout(),
            Node::CData(_) => true,
            Node::Element(_) | Node::Other(_) => false,
        })
    }

    /// The child elements, in document order.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = &Element> {
        self.nodes().iter().filter_map(Node::element)
    }

    /// The child elements, to edit.
    pub fn children_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Element> {
        self.nodes_mut().iter_mut().filter_map(Node::element_mut)
    }

    /// The children of an element that an edit made, to give them other names.
    pub(crate) fn made_children(&mut self) -> impl Iterator<Item = &mut Element> {
        let nodes = self.nodes.get_mut().into_iter().flatten();
        nodes.filter_map(Node::element_mut)
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
fn cdata(raw: &str) -> &str {
    raw.strip_prefix("<![CDATA[")
        .and_then(|rest| rest.strip_suffix("]]>"))
        .unwrap_or(raw)
}

/// What was not edited is copied as a place in the text, whoever looked into it.
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

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Element").field(&self.render()).finish()
    }
}

/// Deep trees are taken apart on the heap, not on the stack.
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
        matches!(self, Node::Text(raw) if is_blank(raw.as_str()))
    }
}
