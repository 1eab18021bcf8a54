//! One pass over the bytes, which finds every element and checks that the text is acceptable XML.
//!
//! A table of byte classes skips the text between markup, and stops at the few bytes that need a check.

use super::{BYTE_ORDER_MARK, Flaw, Namespaces, ParseErrorKind, ScanResult, flaw};
use crate::byte_classes::{
    BRACKET, EQUALS, MARKUP, MAY_BE_FORBIDDEN, NAME, NAME_START, QUOTE, SPACE,
};
use crate::content_node::{CDATA, CDATA_END, COMMENT, COMMENT_END, INSTRUCTION, INSTRUCTION_END};
use crate::source_text::{ElementTable, Span};
use crate::{Limits, MAX_DEPTH, byte_classes, escape, name};

pub(super) struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    limits: &'a Limits,
    depth: usize,
    nodes_left: usize,
    table: ElementTable,
    /// The elements that are not closed yet, innermost last.
    open: Vec<u32>,
    namespaces: Namespaces<'a>,
    /// The attributes of the last start tag.
    attributes: Vec<Attribute>,
    /// Whether one of them may declare a namespace.
    may_declare_namespace: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str, limits: &'a Limits) -> Self {
        Scan {
            text,
            bytes: text.as_bytes(),
            at: 0,
            limits,
            depth: limits.depth.min(MAX_DEPTH),
            nodes_left: limits.nodes,
            table: ElementTable {
                // Domain XML has an element every forty bytes.
                elements: Vec::with_capacity(text.len() / 32 + 1),
                ..ElementTable::default()
            },
            open: Vec::with_capacity(16),
            namespaces: Namespaces::default(),
            attributes: Vec::with_capacity(16),
            may_declare_namespace: false,
        }
    }

    pub(super) fn run(mut self) -> ScanResult<ElementTable> {
        if self.text.starts_with(BYTE_ORDER_MARK) {
            self.at = BYTE_ORDER_MARK.len_utf8();
        }
        if self.is_declaration() {
            self.declaration()?;
        }
        while let Some(byte) = self.bytes.get(self.at) {
            match (byte, self.bytes.get(self.at + 1)) {
                (b'<', Some(b'/')) => self.end_tag()?,
                (b'<', Some(b'!')) => self.comment_or_cdata()?,
                (b'<', Some(b'?')) => self.instruction()?,
                (b'<', _) => self.start_tag()?,
                _ => self.character_data()?,
            }
        }
        match self.open.last() {
            None if self.table.elements.is_empty() => Err(flaw(self.at, ParseErrorKind::NoRoot)),
            None => Ok(self.table),
            Some(index) => {
                let span = self.table.elements[*index as usize];
                let name = &self.text[span.start as usize + 1..span.name_end as usize];
                Err(flaw(
                    span.start as usize,
                    ParseErrorKind::Unclosed(name.to_owned()),
                ))
            }
        }
    }

    /// Fails if the document has more nodes than are allowed, at `at`.
    fn count_nodes(&mut self, nodes: usize, at: usize) -> ScanResult<()> {
        match self.nodes_left.checked_sub(nodes) {
            Some(left) => {
                self.nodes_left = left;
                Ok(())
            }
            None => Err(flaw(at, ParseErrorKind::TooManyNodes(self.limits.nodes))),
        }
    }

    fn is_after_root(&self) -> bool {
        self.open.is_empty() && !self.table.elements.is_empty()
    }

    fn start_tag(&mut self) -> ScanResult<()> {
        let start = self.at;
        if self.is_after_root() {
            return Err(flaw(start, ParseErrorKind::OutsideRoot));
        }
        if self.open.len() >= self.depth {
            return Err(flaw(start, ParseErrorKind::TooDeep(self.depth)));
        }
        if self.table.elements.len() >= self.limits.elements {
            let kind = ParseErrorKind::TooManyElements(self.limits.elements);
            return Err(flaw(start, kind));
        }
        let name_end = self.name_end(start + 1)?;
        let (close, body) = self.attributes(name_end)?;
        if close == b'?' {
            return Err(self.bad_name(body - 2));
        }
        self.count_nodes(1 + self.attributes.len(), start)?;
        let index = self.table.elements.len() as u32;
        self.namespaces(index, start, name_end)?;
        let [start, name_end, body] = [start, name_end, body].map(|at| at as u32);
        self.table.elements.push(Span {
            start,
            name_end,
            body,
            body_end: body,
            end: body,
            next: index + 1,
        });
        if close == b'/' {
            self.namespaces.pop_element(self.open.len());
        } else {
            self.open.push(index);
        }
        self.at = body as usize;
        Ok(())
    }

    /// Declares the element's namespaces, and resolves its name.
    fn namespaces(&mut self, index: u32, start: usize, name_end: usize) -> ScanResult<()> {
        if self.may_declare_namespace {
            self.table.declaring.push(index);
            for attribute in &self.attributes {
                let (text, depth) = (self.text, self.open.len());
                let part = |(from, to): (u32, u32)| &text[from as usize..to as usize];
                let uri = escape::plain_attribute(part(attribute.value));
                let declared = self.namespaces.declare(part(attribute.name), &uri, depth);
                declared.map_err(|kind| flaw(start, kind))?;
            }
        }
        let canonical = self.namespaces.canonical(&self.text[start + 1..name_end]);
        if let Some(canonical) = canonical {
            self.table.canonical.push((index, canonical));
        }
        Ok(())
    }

    fn end_tag(&mut self) -> ScanResult<()> {
        let start = self.at;
        let Some(index) = self.open.last().copied() else {
            return Err(self.mismatch(""));
        };
        let element = self.table.elements[index as usize];
        let name = element.start as usize + 1..element.name_end as usize;
        let after = start + 2 + name.len();
        if self.bytes.get(start + 2..after) != Some(&self.bytes[name.clone()]) {
            return Err(self.mismatch(&self.text[name]));
        }
        let close = byte_classes::past(self.bytes, after, SPACE);
        if self.bytes.get(close) != Some(&b'>') {
            return Err(self.mismatch(&self.text[name]));
        }
        self.at = close + 1;
        self.open.pop();
        self.namespaces.pop_element(self.open.len());
        let next = self.table.elements.len() as u32;
        let element = &mut self.table.elements[index as usize];
        element.body_end = start as u32;
        element.end = self.at as u32;
        element.next = next;
        Ok(())
    }

    /// The error for an end tag that does not close the open element.
    #[cold]
    fn mismatch(&self, open: &str) -> Box<Flaw> {
        let inside = &self.text[self.at + 2..];
        let Some((end_tag, _)) = inside.split_once('>') else {
            return syntax(self.at, "a tag is not closed");
        };
        let kind = ParseErrorKind::MismatchedEnd {
            open: open.to_owned(),
            found: end_tag.trim_end_matches([' ', '\t', '\n', '\r']).to_owned(),
        };
        flaw(self.at, kind)
    }
}

#[cold]
fn syntax(at: usize, what: &str) -> Box<Flaw> {
    flaw(at, ParseErrorKind::Syntax(what.to_owned()))
}

/// Maximum length of a reference in bytes, with `&` and `;`. Without it, scanning `&&&&…` takes quadratic time.
const MAX_REFERENCE: usize = 17;
const UNCLOSED_INSTRUCTION: &str = "a processing instruction is not closed";

impl Scan<'_> {
    fn character_data(&mut self) -> ScanResult<()> {
        let from = self.at;
        let mut at = from;
        loop {
            at = byte_classes::until(self.bytes, at, MARKUP | BRACKET | MAY_BE_FORBIDDEN);
            at = match self.bytes.get(at) {
                None | Some(b'<') => break,
                Some(b'&') => self.reference(at)?,
                Some(b']') if self.bytes[at..].starts_with(CDATA_END) => {
                    return Err(syntax(at, "`]]>` must be written ]]&gt; in text"));
                }
                Some(b']') => at + 1,
                Some(_) => self.character(at)?,
            };
        }
        self.at = at;
        if !self.open.is_empty() {
            return self.count_nodes(1, from);
        }
        if byte_classes::is_blank(&self.text[from..at]) {
            return Ok(());
        }
        Err(flaw(from, ParseErrorKind::OutsideRoot))
    }

    /// Checks a reference, and returns the index after it.
    fn reference(&self, at: usize) -> ScanResult<usize> {
        let window = self.bytes[at..].iter().take(MAX_REFERENCE);
        let end = window.clone().position(|byte| *byte == b';');
        let name = end.map_or("", |end| &self.text[at + 1..at + end]);
        if escape::resolve(name).is_none() {
            return Err(flaw(at, ParseErrorKind::BadReference(name.to_owned())));
        }
        Ok(at + name.len() + 2)
    }

    /// Checks a character, and returns the index after it.
    fn character(&self, at: usize) -> ScanResult<usize> {
        let character = self.text[at..].chars().next().unwrap_or_default();
        if escape::is_char(character) {
            Ok(at + character.len_utf8())
        } else {
            Err(flaw(at, ParseErrorKind::BadCharacter(character)))
        }
    }

    fn comment_or_cdata(&mut self) -> ScanResult<()> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(COMMENT) {
            let close = self.checked_end(COMMENT, COMMENT_END, "a comment is not closed")?;
            let inside = &rest[COMMENT.len()..close - self.at - COMMENT_END.len()];
            if inside.ends_with(b"-") || byte_classes::find(inside, 0, b"--").is_some() {
                return Err(syntax(self.at, "`--` may not stand in a comment"));
            }
            return self.skip_markup(close);
        }
        if rest.starts_with(CDATA) {
            if self.open.is_empty() {
                return Err(flaw(self.at, ParseErrorKind::OutsideRoot));
            }
            let close = self.checked_end(CDATA, CDATA_END, "a CDATA section is not closed")?;
            return self.skip_markup(close);
        }
        if rest
            .get(2)
            .is_some_and(|byte| byte.eq_ignore_ascii_case(&b'd'))
        {
            return Err(flaw(self.at, ParseErrorKind::Doctype));
        }
        Err(syntax(
            self.at,
            "`<!` begins neither a comment nor a CDATA section",
        ))
    }

    fn instruction(&mut self) -> ScanResult<()> {
        let close = self.checked_end(INSTRUCTION, INSTRUCTION_END, UNCLOSED_INSTRUCTION)?;
        if self.is_declaration() {
            return Err(syntax(
                self.at,
                "an XML declaration may only stand at the very start",
            ));
        }
        let inside = &self.text[self.at + 2..close - 2];
        let target = &inside[..byte_classes::until(inside.as_bytes(), 0, SPACE)];
        if !name::is_valid(target) || target.eq_ignore_ascii_case("xml") {
            return Err(flaw(self.at, ParseErrorKind::BadName(target.to_owned())));
        }
        self.skip_markup(close)
    }

    /// Continues after markup that is allowed inside and outside of the root.
    fn skip_markup(&mut self, close: usize) -> ScanResult<()> {
        if !self.open.is_empty() {
            self.count_nodes(1, self.at)?;
        }
        self.at = close;
        Ok(())
    }

    /// Searches the end of comments, CDATA and instructions, and returns the index after it.
    fn checked_end(&self, opening: &[u8], closing: &[u8], unclosed: &str) -> ScanResult<usize> {
        let Some(end) = byte_classes::find(self.bytes, self.at + opening.len(), closing) else {
            return Err(syntax(self.at, unclosed));
        };
        let mut at = self.at;
        loop {
            at = byte_classes::until(&self.bytes[..end], at, MAY_BE_FORBIDDEN);
            if at == end {
                return Ok(end + closing.len());
            }
            at = self.character(at)?;
        }
    }

    /// Checks the XML declaration. Its encoding must be the actual one, since the next reader of the text relies on it.
    fn declaration(&mut self) -> ScanResult<()> {
        let start = self.at;
        let close = self.checked_end(INSTRUCTION, INSTRUCTION_END, UNCLOSED_INSTRUCTION)?;
        let name_end = self.name_end(start + 2)?;
        if self.attributes(name_end)? != (b'?', close) {
            return Err(syntax(
                start,
                "the first `?>` of the XML declaration does not close it",
            ));
        }
        let part = |(from, to): (u32, u32)| &self.text[from as usize..to as usize];
        let mut attributes = self.attributes.iter();
        let encoding = attributes.find(|attribute| part(attribute.name) == "encoding");
        let encoding = encoding.map_or("UTF-8", |attribute| part(attribute.value));
        let known = ["UTF-8", "UTF8", "US-ASCII"];
        if !known
            .iter()
            .any(|known| known.eq_ignore_ascii_case(encoding))
        {
            return Err(flaw(start, ParseErrorKind::Encoding(encoding.to_owned())));
        }
        self.at = close;
        Ok(())
    }

    fn is_declaration(&self) -> bool {
        match self.bytes[self.at..].strip_prefix(b"<?xml") {
            Some([next, ..]) => *next == b'?' || byte_classes::is(*next, SPACE),
            _ => false,
        }
    }
}

/// Maximum number of attributes of an element: far more than any element of libvirt has.
const MAX_ATTRIBUTES: usize = 256;

/// Where an attribute's name and value are, in bytes of the text.
#[derive(Clone, Copy)]
struct Attribute {
    name: (u32, u32),
    value: (u32, u32),
}

impl Scan<'_> {
    /// The index after a name.
    #[inline]
    fn name_end(&self, at: usize) -> ScanResult<usize> {
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
    fn bad_name(&self, at: usize) -> Box<Flaw> {
        let rest = &self.text[at..];
        let end = byte_classes::until(rest.as_bytes(), 0, SPACE | EQUALS);
        let name = rest[..end].split('>').next().unwrap_or_default();
        flaw(at, ParseErrorKind::BadName(name.to_owned()))
    }

    /// Reads attributes up to the end of a tag. Returns the first byte of the tag's end and the index after it.
    fn attributes(&mut self, name_end: usize) -> ScanResult<(u8, usize)> {
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
