//! Sets and removes attributes, and sets the text of an element.

use std::ops::Range;

use crate::content_node::Node;
use crate::source_text::Raw;
use crate::{EditError, Element, edit_error, escape};

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
}
