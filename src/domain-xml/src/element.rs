//! `Element`: an XML element, with look-ups of its name, attributes and children.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use crate::content_node::Node;
use crate::insertion_namespace_scope::{InsertionScope, ResolvedName};
use crate::source_text::{Origin, Raw};
use crate::start_tag::{Attribute, Attributes};
use crate::{EditError, edit_error, escape, insertion_namespace_scope, name, render, start_tag};

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

/// Editing. Parts that an edit does not name keep their bytes; inserted elements are indented like their neighbours
/// when the document is rendered.
impl Element {
    /// Sets an attribute: in place if there is one of this name, else after the last one. Setting the same value again
    /// changes no byte.
    ///
    /// Characters of the value that XML does not allow, such as U+0001, become U+FFFD, and
    /// [`Element::check_values`] finds them. The SDK for hooks calls that at the end of each call, so that the hook
    /// fails. [`Element::try_set_attr`] and [`Element::set`] return an error at once.
    ///
    /// # Panics
    /// If `name` is not a name in XML, since names are nearly always written in the code. For a name that comes from
    /// elsewhere there is [`Element::try_set_attr`].
    #[track_caller]
    pub fn set_attr(&mut self, name: &str, value: impl AsRef<str>) -> &mut Element {
        if let Err(error) = edit_error::check_name(name) {
            panic!("Element::set_attr: {error}");
        }
        self.put_attr(name, value.as_ref());
        self
    }

    /// As [`Element::set_attr`], for a name or value that may be invalid.
    ///
    /// # Errors
    /// If `name` is not a name in XML, or the value has a character that XML does not allow. Nothing is changed then.
    pub fn try_set_attr(
        &mut self,
        name: &str,
        value: impl AsRef<str>,
    ) -> Result<&mut Element, EditError> {
        edit_error::check_name(name)?;
        edit_error::check_value(value.as_ref())?;
        self.put_attr(name, value.as_ref());
        Ok(self)
    }

    /// Sets an attribute of a name that is known to be valid.
    pub(crate) fn put_attr(&mut self, name: &str, value: &str) {
        self.note_value(value);
        let Some(attribute) = self.attribute(name) else {
            return self.add_attr(name, value);
        };
        if attribute.value() != value {
            let quote = &self.tag()[attribute.to - 1..attribute.to];
            let raw = escape::attribute(value, quote);
            self.splice(attribute.raw_from..attribute.to - 1, &[&raw]);
        }
    }

    /// Remembers that the value has a character that becomes U+FFFD.
    fn note_value(&mut self, value: &str) {
        self.has_replaced_value |= edit_error::check_value(value).is_err();
    }

    fn add_attr(&mut self, name: &str, value: &str) {
        let (at, quote) = match self.attributes().last() {
            Some(last) => (last.to, self.tag()[last.to - 1..last.to].to_owned()),
            None => (self.tag_name().len(), "'".to_owned()),
        };
        let raw = escape::attribute(value, &quote);
        self.splice(at..at, &[" ", name, "=", &quote, &raw, &quote]);
    }

    /// Replaces a part of the start tag.
    fn splice(&mut self, place: Range<usize>, parts: &[&str]) {
        let tag = self.tag();
        let spliced = [&tag[..place.start], &parts.concat(), &tag[place.end..]].concat();
        self.tag = Some(spliced.into());
    }

    /// Removes an attribute and returns its value.
    pub fn remove_attr(&mut self, name: &str) -> Option<String> {
        let attribute = self.attribute(name)?;
        let value = attribute.value().into_owned();
        self.splice(attribute.from..attribute.to, &[]);
        Some(value)
    }

    /// Replaces the element's own character data; child elements and comments stay. Setting the same text again changes
    /// no byte. Characters that XML does not allow become U+FFFD, as with [`Element::set_attr`].
    pub fn set_text(&mut self, text: impl AsRef<str>) -> &mut Element {
        let text = text.as_ref();
        if self.text() == text {
            return self;
        }
        self.note_value(text);
        let keeps_layout = self.children().next().is_some();
        let is_text = |node: &Node| match node {
            Node::Text(_) => !(keeps_layout && node.is_layout()),
            Node::CData(_) => true,
            Node::Element(_) | Node::Other(_) => false,
        };
        let nodes = self.nodes_mut();
        let at = nodes.iter().position(is_text).unwrap_or(0);
        nodes.retain(|node| !is_text(node));
        if !text.is_empty() {
            nodes.insert(at, Node::Text(Raw::written(escape::text(text))));
        }
        self
    }

    /// As [`Element::set_text`], for a text that may be invalid.
    ///
    /// # Errors
    /// If the text has a character that XML does not allow. Nothing is changed then.
    pub fn try_set_text(&mut self, text: impl AsRef<str>) -> Result<&mut Element, EditError> {
        edit_error::check_value(text.as_ref())?;
        Ok(self.set_text(text))
    }

    /// Builder form of [`Element::set_attr`].
    ///
    /// # Panics
    /// If `name` is not a name in XML.
    #[must_use]
    #[track_caller]
    pub fn with_attr(mut self, name: &str, value: impl AsRef<str>) -> Element {
        self.set_attr(name, value);
        self
    }

    /// Builder form of [`Element::set_text`].
    #[must_use]
    pub fn with_text(mut self, text: impl AsRef<str>) -> Element {
        self.set_text(text);
        self
    }

    /// Builder form of [`Element::append`].
    #[must_use]
    pub fn with_child(mut self, child: Element) -> Element {
        self.append(child);
        self
    }

    /// Whether the element has neither attributes nor content.
    pub fn is_empty(&self) -> bool {
        self.attributes().next().is_none() && self.nodes().iter().all(Node::is_layout)
    }

    /// Writes `<a></a>` instead of `<a/>`, for readers that distinguish them.
    pub fn expand(&mut self) -> &mut Element {
        self.expanded = true;
        self
    }

    /// Adds a child after the last one and returns it to edit.
    pub fn append(&mut self, child: Element) -> &mut Element {
        let nodes = self.nodes();
        let at = nodes.len() - usize::from(nodes.last().is_some_and(Node::is_layout));
        self.place(at, child)
    }

    /// Adds a child as the first one.
    pub fn prepend(&mut self, child: Element) -> &mut Element {
        match self.position(|_| true) {
            Some(first) => self.place_before(first, child),
            None => self.append(child),
        }
    }

    /// Adds a child before the first one named `sibling`, or as the last one if there is none.
    pub fn insert_before(&mut self, sibling: &str, child: Element) -> &mut Element {
        match self.position(|element| element.is(sibling)) {
            Some(at) => self.place_before(at, child),
            None => self.append(child),
        }
    }

    /// Adds a child after the last one named `sibling`, or as the last one if there is none.
    pub fn insert_after(&mut self, sibling: &str, child: Element) -> &mut Element {
        match self.last_position(|element| element.is(sibling)) {
            Some(at) => self.place(at + 1, child),
            None => self.append(child),
        }
    }

    /// The node index of the first matching child.
    pub(crate) fn position(&self, fits: impl Fn(&Element) -> bool) -> Option<usize> {
        let nodes = self.nodes();
        nodes
            .iter()
            .position(|node| node.element().is_some_and(&fits))
    }

    fn last_position(&self, fits: impl Fn(&Element) -> bool) -> Option<usize> {
        let nodes = self.nodes();
        nodes
            .iter()
            .rposition(|node| node.element().is_some_and(&fits))
    }

    /// Adds a child in schema order: after the last child that `order` puts before it or that has the same name.
    /// Children that `order` does not list are ignored.
    pub fn insert_ordered(&mut self, child: Element, order: &[&str]) -> &mut Element {
        let rank = |name: &str| order.iter().position(|listed| *listed == name);
        let Some(own) = rank(child.canonical_name()) else {
            return self.append(child);
        };
        let ranks = |element: &Element| rank(element.canonical_name());
        if let Some(at) = self.last_position(|element| ranks(element).is_some_and(|r| r <= own)) {
            return self.place(at + 1, child);
        }
        match self.position(|element| ranks(element).is_some()) {
            Some(at) => self.place_before(at, child),
            None => self.append(child),
        }
    }

    /// The first child of this name, added as the last one if there is none.
    ///
    /// # Panics
    /// If there is none, and `name` is not a name in XML.
    #[track_caller]
    pub fn ensure_child(&mut self, name: &str) -> &mut Element {
        match self.position(|element| element.is(name)) {
            Some(at) => self.element_at(at),
            None => self.append(Element::new(name)),
        }
    }

    /// The first child of this name, added in schema order if there is none.
    ///
    /// # Panics
    /// If there is none, and `name` is not a name in XML.
    #[track_caller]
    pub fn ensure_child_ordered(&mut self, name: &str, order: &[&str]) -> &mut Element {
        match self.position(|element| element.is(name)) {
            Some(at) => self.element_at(at),
            None => self.insert_ordered(Element::new(name), order),
        }
    }

    /// Inserts a child before the node at `at` and the white space in front of it.
    fn place_before(&mut self, at: usize, child: Element) -> &mut Element {
        let led = at > 0 && self.nodes()[at - 1].is_layout();
        self.place(at - usize::from(led), child)
    }

    fn place(&mut self, at: usize, mut child: Element) -> &mut Element {
        child.aligned = true;
        insertion_namespace_scope::apply_prefixes(&mut child, InsertionScope::inside(self));
        self.nodes_mut().insert(at, Node::Element(child));
        self.element_at(at)
    }

    /// The child element at a node index.
    pub(crate) fn element_at(&mut self, at: usize) -> &mut Element {
        match &mut self.nodes_mut()[at] {
            Node::Element(element) => element,
            _ => unreachable!("the index was found by looking for an element"),
        }
    }

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
