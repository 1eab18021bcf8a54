//! Time and allocations of finding the elements of a domain: this crate's tokenizer, and quick-xml's reader in its
//! place. docs/decisions/0001-own-xml-tree.md has the figures and what follows from them.
//!
//! `cargo bench -p hooks-sdk-domain-xml --bench tokenizer_vs_quick_xml` prints a table; nothing is asserted about time.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod bench_table;
mod windows_vm_xml;

use std::sync::Arc;

use bench_table::FASTEST;
use domain_xml::Document;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::attributes::Attributes;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;
use windows_vm_xml::windows_vm;

fn main() {
    for disks in [36, 1180] {
        let xml = windows_vm(disks, "none");
        let elements = Document::parse(&xml).unwrap().find_all("**").unwrap().len();
        assert_eq!(
            scan::<DomainXmlChecks>(&xml).unwrap().elements.len(),
            elements
        );
        println!("\ndomain XML of {} bytes, {elements} elements", xml.len());
        FASTEST.row("this crate: parse, drop", || Document::parse(&xml).unwrap());
        FASTEST.row("quick-xml: the same checks", || {
            tree::<DomainXmlChecks>(&xml)
        });
        FASTEST.row("quick-xml: its own checks only", || tree::<Trusting>(&xml));
    }
}

/// An element's position; the fields are those of this crate's tree.
#[allow(dead_code)]
struct Span {
    start: u32,
    name_end: u32,
    body: u32,
    body_end: u32,
    end: u32,
    next: u32,
}

#[derive(Default)]
struct Elements {
    elements: Vec<Span>,
    declaring: Vec<u32>,
}

/// What an unedited document consists of.
fn tree<C: Checks>(xml: &str) -> Arc<(Box<str>, Elements)> {
    let elements = scan::<C>(xml).unwrap();
    Arc::new((xml.into(), elements))
}

/// The checks that quick-xml leaves to its caller.
trait Checks {
    fn name(name: &str) -> Option<()>;
    fn text(text: &str) -> Option<()>;
    fn value(value: &str) -> Option<()>;
    fn reference(reference: &str) -> Option<()>;
}

struct Trusting;

impl Checks for Trusting {
    fn name(_: &str) -> Option<()> {
        Some(())
    }
    fn text(_: &str) -> Option<()> {
        Some(())
    }
    fn value(_: &str) -> Option<()> {
        Some(())
    }
    fn reference(_: &str) -> Option<()> {
        Some(())
    }
}

/// The checks of this crate, for ASCII names.
struct DomainXmlChecks;

impl Checks for DomainXmlChecks {
    fn name(name: &str) -> Option<()> {
        let first = *name.as_bytes().first()?;
        let starts = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':');
        let continues = |byte| starts(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        (starts(first) && name.bytes().all(continues)).then_some(())
    }

    fn text(text: &str) -> Option<()> {
        is_allowed(text, |_| false).then_some(())
    }

    fn value(value: &str) -> Option<()> {
        if !is_allowed(value, |byte| byte == b'<') {
            return None;
        }
        let mut references = value.split('&').skip(1);
        references.try_for_each(|rest| Self::reference(rest.split_once(';')?.0))
    }

    fn reference(reference: &str) -> Option<()> {
        if resolve_predefined_entity(reference).is_some() {
            return Some(());
        }
        let character = BytesRef::new(reference).resolve_char_ref().ok()??;
        is_allowed(character.encode_utf8(&mut [0; 4]), |_| false).then_some(())
    }
}

fn is_allowed(text: &str, forbidden: impl Fn(u8) -> bool) -> bool {
    let control = |byte: u8| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r');
    !text.bytes().any(|byte| control(byte) || forbidden(byte))
        && !text.contains(['\u{FFFE}', '\u{FFFF}'])
}

/// The positions of all elements; `None` for text that is refused.
fn scan<C: Checks>(xml: &str) -> Option<Elements> {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_comments = true;
    let mut found = Elements {
        elements: Vec::with_capacity(xml.len() / 32 + 1),
        declaring: Vec::new(),
    };
    let mut open: Vec<u32> = Vec::with_capacity(16);
    let mut nodes = 262_144_usize;
    loop {
        let start = reader.buffer_position() as u32;
        let event = reader.read_event().ok()?;
        let end = reader.buffer_position() as u32;
        nodes = nodes.checked_sub(1)?;
        match &event {
            Event::Start(tag) | Event::Empty(tag) => {
                if (open.is_empty() && !found.elements.is_empty()) || open.len() >= 128 {
                    return None;
                }
                let index = found.elements.len() as u32;
                let name = tag.name().into_inner();
                C::name(name)?;
                let (count, declares) = attributes::<C>(tag)?;
                nodes = nodes.checked_sub(count)?;
                if declares {
                    found.declaring.push(index);
                }
                found.elements.push(Span {
                    start,
                    name_end: start + 1 + name.len() as u32,
                    body: end,
                    body_end: end,
                    end,
                    next: index + 1,
                });
                if matches!(event, Event::Start(_)) {
                    open.push(index);
                }
            }
            Event::End(_) => {
                let next = found.elements.len() as u32;
                let element = &mut found.elements[open.pop()? as usize];
                (element.body_end, element.end, element.next) = (start, end, next);
            }
            Event::Text(text) => C::text(text)?,
            Event::CData(text) => C::text(text)?,
            Event::Comment(text) => C::text(text)?,
            Event::GeneralRef(reference) => C::reference(reference)?,
            Event::PI(_) | Event::Decl(_) => {}
            Event::DocType(_) => return None,
            Event::Eof => break,
        }
    }
    (open.is_empty() && !found.elements.is_empty()).then_some(found)
}

/// The number of attributes, and whether one of them may declare a namespace. quick-xml's own check for duplicates
/// allocates for each tag; this one does not for the few attributes of domain XML.
fn attributes<C: Checks>(tag: &BytesStart<'_>) -> Option<(usize, bool)> {
    let (mut count, mut declares) = (0, false);
    let mut few = [""; 32];
    let mut many = Vec::new();
    let mut attributes: Attributes<'_> = tag.attributes();
    for attribute in attributes.with_checks(false) {
        let attribute = attribute.ok()?;
        let name = attribute.key.into_inner();
        C::name(name)?;
        C::value(&attribute.value)?;
        if few[..count.min(few.len())].contains(&name) || many.contains(&name) {
            return None;
        }
        match few.get_mut(count) {
            Some(free) => *free = name,
            None => many.push(name),
        }
        declares |= name.starts_with("xmlns");
        count += 1;
    }
    (count <= 256).then_some((count, declares))
}
