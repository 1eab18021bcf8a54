//! The inside of a start tag: `name attr='value' ...`, which is known to be well-formed.

use std::borrow::Cow;

use crate::bytes::{self, EQUALS, SPACE};
use crate::escape;

/// An attribute as it stands in a start tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'a str,
    /// The value in its escaped form.
    pub(crate) raw: &'a str,
    /// Where it begins in the tag, with the white space before its name.
    pub(crate) from: usize,
    /// Where its value begins.
    pub(crate) raw_from: usize,
    /// After its closing quote.
    pub(crate) to: usize,
}

impl<'a> Attribute<'a> {
    pub(crate) fn value(&self) -> Cow<'a, str> {
        escape::plain_attribute(self.raw)
    }
}

/// The name that a tag begins with.
pub(crate) fn name(tag: &str) -> &str {
    &tag[..bytes::until(tag.as_bytes(), 0, SPACE)]
}

/// The attributes of a tag, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Attributes<'a> {
    tag: &'a str,
    at: usize,
}

impl<'a> Attributes<'a> {
    /// Of a tag whose name has so many bytes.
    pub(crate) fn of(tag: &'a str, name: usize) -> Attributes<'a> {
        Attributes { tag, at: name }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let bytes = self.tag.as_bytes();
        let from = self.at;
        let name_from = bytes::past(bytes, from, SPACE);
        let name_to = bytes::until(bytes, name_from, SPACE | EQUALS);
        let open = bytes::past(bytes, name_to, SPACE | EQUALS);
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
