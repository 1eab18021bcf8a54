//! The inside of a well-formed start tag: `name attr='value' ...`.

use std::borrow::Cow;

use crate::byte_classes::{self, EQUALS, SPACE};
use crate::escape;

/// An attribute in a start tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'a str,
    /// The value in its escaped form.
    pub(crate) raw: &'a str,
    /// Start in the tag, including the white space before the name.
    pub(crate) from: usize,
    /// Start of the value.
    pub(crate) raw_from: usize,
    /// Index after the closing quote.
    pub(crate) to: usize,
}

impl<'a> Attribute<'a> {
    pub(crate) fn value(&self) -> Cow<'a, str> {
        escape::plain_attribute(self.raw)
    }
}

/// The element's name.
pub(crate) fn name(tag: &str) -> &str {
    &tag[..byte_classes::until(tag.as_bytes(), 0, SPACE)]
}

/// The attributes of a tag, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Attributes<'a> {
    tag: &'a str,
    at: usize,
}

impl<'a> Attributes<'a> {
    /// The attributes of a tag whose name has this number of bytes.
    pub(crate) fn of(tag: &'a str, name: usize) -> Attributes<'a> {
        Attributes { tag, at: name }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let bytes = self.tag.as_bytes();
        let from = self.at;
        let name_from = byte_classes::past(bytes, from, SPACE);
        let name_to = byte_classes::until(bytes, name_from, SPACE | EQUALS);
        let open = byte_classes::past(bytes, name_to, SPACE | EQUALS);
        let quote = bytes.get(open)?;
        let raw_from = open + 1;
        let raw = bytes
            .get(raw_from..)?
            .iter()
            .position(|byte| byte == quote)?;
        let raw_to = raw_from + raw;
        self.at = raw_to + 1;
        Some(Attribute {
            name: self.tag.get(name_from..name_to)?,
            raw: self.tag.get(raw_from..raw_to)?,
            from,
            raw_from,
            to: self.at,
        })
    }
}
