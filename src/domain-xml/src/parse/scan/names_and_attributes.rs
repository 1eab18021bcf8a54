//! Reads the name and the attributes of a tag.

use super::{Flaw, ParseErrorKind, Scan, ScanResult, flaw, syntax};
use crate::byte_classes::{self, EQUALS, MARKUP, MAY_BE_FORBIDDEN, NAME, NAME_START, QUOTE, SPACE};
use crate::name;

/// Maximum number of attributes of an element: far more than any element of libvirt has.
const MAX_ATTRIBUTES: usize = 256;

/// Where an attribute's name and value are, in bytes of the text.
#[derive(Clone, Copy)]
pub(super) struct Attribute {
    pub(super) name: (u32, u32),
    pub(super) value: (u32, u32),
}

impl Scan<'_> {
    /// The index after a name.
    #[inline]
    pub(super) fn name_end(&self, at: usize) -> ScanResult<usize> {
        let end = self
            .ascii_part(at)
            .and_then(|end| match self.bytes.get(end) {
                Some(b':') => self.ascii_part(end + 1),
                _ => Some(end),
            });
        match end {
            Some(end) if self.ends_name(end) => Ok(end),
            _ => self.unusual_name(at),
        }
    }

    /// The end of a prefix or a local name.
    #[inline]
    fn ascii_part(&self, at: usize) -> Option<usize> {
        let starts = byte_classes::is(*self.bytes.get(at)?, NAME_START);
        starts.then(|| byte_classes::past(self.bytes, at, NAME))
    }

    /// The end of a name that is not of ASCII only.
    #[cold]
    fn unusual_name(&self, at: usize) -> ScanResult<usize> {
        let rest = &self.text[at..];
        let end = at
            + rest
                .find(|c| c != ':' && !name::continues(c))
                .unwrap_or(rest.len());
        if name::is_valid(&self.text[at..end]) && self.ends_name(end) {
            return Ok(end);
        }
        Err(self.bad_name(at))
    }

    fn ends_name(&self, end: usize) -> bool {
        self.bytes.get(end).is_none_or(|byte| {
            byte_classes::is(*byte, SPACE | EQUALS) || matches!(byte, b'>' | b'/' | b'?')
        })
    }

    #[cold]
    pub(super) fn bad_name(&self, at: usize) -> Box<Flaw> {
        let rest = &self.text[at..];
        let end = byte_classes::until(rest.as_bytes(), 0, SPACE | EQUALS);
        let name = rest[..end].split('>').next().unwrap_or_default();
        flaw(at, ParseErrorKind::BadName(name.to_owned()))
    }

    /// Reads attributes up to the end of a tag. Returns the first byte of the tag's end and the index after it.
    pub(super) fn attributes(&mut self, name_end: usize) -> ScanResult<(u8, usize)> {
        self.attributes.clear();
        self.may_declare_namespace = false;
        let mut at = name_end;
        loop {
            let lead = at;
            at = byte_classes::past(self.bytes, at, SPACE);
            match (self.bytes.get(at), self.bytes.get(at + 1)) {
                (Some(b'>'), _) => return Ok((b'>', at + 1)),
                (Some(close @ (b'/' | b'?')), Some(b'>')) => return Ok((*close, at + 2)),
                (None, _) => return Err(syntax(name_end, "a tag is not closed")),
                _ if at == lead => {
                    return Err(syntax(at, "white space is missing before an attribute"));
                }
                _ => at = self.attribute(at)?,
            }
        }
    }

    fn attribute(&mut self, start: usize) -> ScanResult<usize> {
        let name_end = self.name_end(start)?;
        let equals = byte_classes::past(self.bytes, name_end, SPACE);
        if self.bytes.get(equals) != Some(&b'=') {
            let name = &self.text[start..name_end];
            return Err(syntax(
                start,
                &["attribute ", name, " has no value"].concat(),
            ));
        }
        let open = byte_classes::past(self.bytes, equals + 1, SPACE);
        let quote = match self.bytes.get(open) {
            Some(quote @ (b'\'' | b'"')) => *quote,
            _ => return Err(syntax(open, "an attribute value needs quotes")),
        };
        let close = self.value_end(open + 1, quote)?;
        // `xmlns` or `xmlns:…`; `declared_namespaces` checks the whole name.
        self.may_declare_namespace |= self.bytes[start] == b'x';
        let [start, name_end, from, to] = [start, name_end, open + 1, close].map(|at| at as u32);
        self.check_is_new(start, name_end)?;
        self.attributes.push(Attribute {
            name: (start, name_end),
            value: (from, to),
        });
        Ok(close + 1)
    }

    /// The index of the closing quote of a value.
    fn value_end(&self, from: usize, quote: u8) -> ScanResult<usize> {
        let mut at = from;
        loop {
            at = byte_classes::until(self.bytes, at, QUOTE | MARKUP | MAY_BE_FORBIDDEN);
            at = match self.bytes.get(at) {
                None => return Err(syntax(from - 1, "an attribute value is not closed")),
                Some(byte) if *byte == quote => return Ok(at),
                Some(b'\'' | b'"') => at + 1,
                Some(b'<') => {
                    return Err(syntax(at, "`<` must be written &lt; in an attribute value"));
                }
                Some(b'&') => self.reference(at)?,
                Some(_) => self.character(at)?,
            };
        }
    }

    /// Fails if the tag has this attribute already, or too many attributes. Comparing every pair is cheap, since their
    /// number is limited.
    fn check_is_new(&self, start: u32, end: u32) -> ScanResult<()> {
        if self.attributes.len() >= MAX_ATTRIBUTES {
            return Err(flaw(
                start as usize,
                ParseErrorKind::TooManyAttributes(MAX_ATTRIBUTES),
            ));
        }
        let name = &self.bytes[start as usize..end as usize];
        let same = |earlier: &Attribute| {
            let (from, to) = earlier.name;
            // Most names differ in length.
            to - from == end - start && self.bytes[from as usize..to as usize] == *name
        };
        if self.attributes.iter().any(same) {
            let name = self.text[start as usize..end as usize].to_owned();
            return Err(flaw(
                start as usize,
                ParseErrorKind::DuplicateAttribute(name),
            ));
        }
        Ok(())
    }
}
