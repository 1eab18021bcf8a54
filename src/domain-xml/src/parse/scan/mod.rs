//! One pass over the bytes, which finds every element and checks that the text is acceptable XML.
//!
//! A table of byte classes skips the text between markup, and stops at the few bytes that need a check.

mod between_tags;
mod names_and_attributes;

use super::declared_namespaces::Namespaces;
use super::{BYTE_ORDER_MARK, Flaw, ParseErrorKind, ScanResult, flaw};
use crate::byte_classes::{self, SPACE};
use crate::source_text::{ElementTable, Span};
use crate::{Limits, MAX_DEPTH, escape};
use names_and_attributes::Attribute;

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
