//! `Element`: an XML element, with look-ups of its name, attributes and children.

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::content_node::Node;
use crate::insertion_namespace_scope::ResolvedName;
use crate::source_text::Origin;
use crate::start_tag::{Attribute, Attributes};
use crate::{EditError, edit_error, name, render, start_tag};

/// An element with its attributes and children.
///
/// Names in look-ups are canonical: `qemu:commandline` finds the element whatever prefix the document binds to
/// libvirt's QEMU namespace. An element that is added under such a name is written with the document's own prefix.
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
    pub(crate) nodes: OnceLock<Vec<Node>>,
    /// Whether something in it may have been edited.
    pub(crate) touched: bool,
    /// Whether it gets an end tag even if it is empty.
    pub(crate) expanded: bool,
    /// Inserted by an edit: rendering indents it like its neighbours.
    pub(crate) aligned: bool,
    /// Whether an attribute or the text was set with a character that became U+FFFD.
    pub(crate) has_replaced_value: bool,
}

impl Element {
    /// An empty element.
    ///
    /// # Panics
    /// If `name` is not a name in XML, since names are nearly always written in the code. For a name that comes from
    /// elsewhere there is [`Element::try_new`].
    #[track_caller]
    pub fn new(name: impl AsRef<str>) -> Element {
        match Element::try_new(name) {
            Ok(element) => element,
            Err(error) => panic!("Element::new: {error}"),
        }
    }

    /// An empty element with a name that may be invalid.
    ///
    /// # Errors
    /// [`EditError::Name`] if `name` is not a name in XML.
    pub fn try_new(name: impl AsRef<str>) -> Result<Element, EditError> {
        let name = name.as_ref();
        edit_error::check_name(name)?;
        Ok(Element::named(name))
    }

    /// An empty element with a name that is known to be valid.
    pub(crate) fn named(name: &str) -> Element {
        Element::with(None, Some(name.into()))
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
            has_replaced_value: false,
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

    /// The name as written, prefix included: `disk`, `qemu:arg`.
    pub fn tag_name(&self) -> &str {
        match &self.origin {
            Some(origin) => origin.name(),
            None => start_tag::name(self.tag()),
        }
    }

    /// The name with the prefix that libvirt documents for its namespace.
    pub fn canonical_name(&self) -> &str {
        let read = self.origin.as_ref().and_then(Origin::canonical);
        let made = || self.placed.as_ref()?.canonical.as_deref();
        read.or_else(made).unwrap_or_else(|| self.tag_name())
    }

    /// Renames an element that an edit created.
    pub(crate) fn rename(&mut self, name: &str) {
        if self.tag_name() != name {
            let attributes = &self.tag()[self.tag_name().len()..];
            self.tag = Some([name, attributes].concat().into());
        }
    }

    /// The namespace of the name, if it has one. Of an element that an edit created, only its own declarations count.
    pub fn namespace(&self) -> Option<String> {
        let (prefix, _) = name::split(self.tag_name());
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

    /// Whether an attribute is there and has this value, entities resolved.
    ///
    /// ```
    /// # use domain_xml::Element;
    /// # fn main() -> Result<(), domain_xml::ParseError> {
    /// let disk = Element::parse("<disk type='block'/>")?;
    /// assert!(disk.is_attr("type", "block"));
    /// assert!(!disk.is_attr("type", "file") && !disk.is_attr("device", "disk"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_attr(&self, name: &str, value: &str) -> bool {
        self.attr(name).is_some_and(|found| found == value)
    }

    /// The bytes of the start tag, which the search for an attribute reads.
    pub(crate) fn tag_bytes(&self) -> usize {
        self.tag().len()
    }

    /// Names and values of all attributes, in document order, namespace declarations included.
    pub fn attrs(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.attributes()
            .map(|attribute| (attribute.name, attribute.value()))
    }

    pub(crate) fn attributes(&self) -> Attributes<'_> {
        Attributes::of(self.tag(), self.tag_name().len())
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
