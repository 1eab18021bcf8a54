use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use crate::byte_classes::is_blank;
use crate::insertion_scope::ResolvedName;
use crate::source_text::{Origin, Raw};
use crate::start_tag::{Attribute, Attributes};
use crate::{escape, name, render, start_tag};

/// An element with its attributes and children.
///
/// Names in look-ups are canonical: `qemu:commandline` finds the element whatever prefix the
/// document binds to libvirt's QEMU namespace. An element that is added under such a name is written
/// with the document's own prefix.
///
/// An element that was read is a position in the text until its content is accessed or edited.
pub struct Element {
    /// Its position in the text; `None` if an edit created it.
    pub(crate) origin: Option<Origin>,
    /// The start tag without `<` and `>`, if it differs from the text.
    pub(crate) tag: Option<Box<str>>,
    /// Its name in the scope where an edit inserted it, if the scope has namespaces.
    pub(crate) placed: Option<Box<ResolvedName>>,
    /// The content, once it was accessed.
    nodes: OnceLock<Vec<Node>>,
    /// Whether something in it may have been edited.
    touched: bool,
    /// Whether it gets an end tag even if it is empty.
    pub(crate) expanded: bool,
    /// Inserted by an edit: rendering indents it like its neighbours.
    pub(crate) aligned: bool,
}

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

impl Element {
    /// An empty element. Characters that are not allowed in names become `_`.
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

    /// Whether an edit created it, so that its prefix may still need a declaration.
    pub(crate) fn is_made(&self) -> bool {
        self.origin.is_none()
    }

    /// The element's text, if nothing in it was edited.
    pub(crate) fn as_read(&self) -> Option<&str> {
        let origin = self.origin.as_ref()?;
        let edited = self.touched || self.expanded || self.tag.is_some();
        (!edited).then(|| origin.text())
    }

    /// The start tag without `<` and `>`.
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
            None => start_tag::name(self.tag()),
        }
    }

    /// The name with the prefix that libvirt documents for its namespace.
    pub fn canonical_name(&self) -> &str {
        let read = self.origin.as_ref().and_then(Origin::canonical);
        let made = || self.placed.as_ref()?.canonical.as_deref();
        read.or_else(made).unwrap_or_else(|| self.name())
    }

    /// Renames an element that an edit created.
    pub(crate) fn rename(&mut self, name: &str) {
        if self.name() != name {
            let attributes = &self.tag()[self.name().len()..];
            self.tag = Some([name, attributes].concat().into());
        }
    }

    /// The namespace of the name, if it has one. Of an element that an edit created, only its own declarations count.
    pub fn namespace(&self) -> Option<String> {
        let (prefix, _) = name::split(self.name());
        let declared = |element: &Element| {
            let mut declared = element.declarations();
            let found = declared.find(|(declared, _)| *declared == prefix);
            found.map(|(_, uri)| uri.into_owned())
        };
        let around = || {
            let around: Vec<Origin> = self
                .origin
                .iter()
                .flat_map(Origin::declaring_around)
                .collect();
            let mut innermost_first = around.into_iter().rev().map(Element::read);
            innermost_first.find_map(|element| declared(&element))
        };
        let found = declared(self).or_else(around);
        found.filter(|uri| !uri.is_empty())
    }

    /// The names of the attributes as written, without declarations of namespaces.
    pub fn attribute_names(&self) -> impl Iterator<Item = &str> {
        let names = self.attributes().map(|attribute| attribute.name);
        names.filter(|attribute| name::declared_prefix(attribute).is_none())
    }

    /// Whether `name` is the element's name in paths.
    pub fn is(&self, name: &str) -> bool {
        self.canonical_name() == name
    }

    /// The value of an attribute, entities resolved.
    pub fn attr(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(self.attribute(name)?.value())
    }

    /// The bytes of the start tag, which the search for an attribute reads.
    #[must_use]
    pub fn tag_bytes(&self) -> usize {
        self.tag().len()
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

    /// The prefixes that the element declares, with their namespaces.
    pub(crate) fn declarations(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let none = self.tag.is_none() && !self.origin.as_ref().is_some_and(Origin::may_declare);
        let attributes = (!none).then(|| self.attributes());
        attributes.into_iter().flatten().filter_map(|attribute| {
            let prefix = name::declared_prefix(attribute.name)?;
            Some((prefix, attribute.value()))
        })
    }

    /// The content.
    pub(crate) fn nodes(&self) -> &[Node] {
        let read = || self.origin.as_ref().map_or_else(Vec::new, Origin::nodes);
        self.nodes.get_or_init(read)
    }

    /// The content, to edit.
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

    /// The child elements, in document order.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = &Element> {
        self.nodes().iter().filter_map(Node::element)
    }

    /// The child elements, to edit.
    pub fn children_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Element> {
        self.nodes_mut().iter_mut().filter_map(Node::element_mut)
    }

    /// The children of an element that an edit created, to rename them.
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

    /// The element as XML text.
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
