//! Compares the parser with quick-xml, restricted to the rules for domain XML.

use domain_xml::{Document, Element};
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// An element as both parsers report it.
#[derive(Debug, PartialEq, Eq)]
struct ParsedElement {
    depth: usize,
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
}

/// Panics if the parser and quick-xml disagree about a text.
pub fn agrees(text: &str) {
    let ours = Document::parse(text);
    match (&ours, read(text)) {
        (Ok(document), Some(theirs)) => assert_eq!(seen(document.root()), theirs, "{text:?}"),
        (Err(_), None) => {}
        (Ok(_), None) => panic!("accepted, unlike quick-xml: {text:?}"),
        (Err(error), Some(_)) => panic!("{error}, unlike quick-xml: {text:?}"),
    }
}

fn seen(root: &Element) -> Vec<ParsedElement> {
    let mut found = Vec::new();
    let mut pending = vec![(0, root)];
    while let Some((depth, element)) = pending.pop() {
        let attributes = element.attrs();
        found.push(ParsedElement {
            depth,
            name: element.tag_name().to_owned(),
            attributes: attributes
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect(),
            text: element.text(),
        });
        pending.extend(element.children().rev().map(|child| (depth + 1, child)));
    }
    found
}

/// The elements in document order; `None` if the text is not domain XML.
fn read(text: &str) -> Option<Vec<ParsedElement>> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if text.starts_with('\u{FEFF}') || !text.chars().all(is_char) {
        return None;
    }
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_comments = true;
    let mut found: Vec<ParsedElement> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut began = false;
    loop {
        let event = reader.read_event().ok()?;
        match &event {
            Event::Start(tag) | Event::Empty(tag) => {
                if (open.is_empty() && !found.is_empty()) || open.len() >= 128 {
                    return None;
                }
                found.push(ParsedElement {
                    depth: open.len(),
                    name: name(tag.name().into_inner())?,
                    attributes: attributes(tag)?,
                    text: String::new(),
                });
                if matches!(event, Event::Start(_)) {
                    open.push(found.len() - 1);
                }
            }
            Event::End(_) => drop(open.pop()?),
            Event::Text(raw) if open.is_empty() => {
                if !raw.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
                    return None;
                }
            }
            Event::Text(raw) if raw.contains("]]>") => return None,
            Event::Text(raw) => found[*open.last()?].text.push_str(&raw.xml10_content()),
            Event::CData(raw) => found[*open.last()?].text.push_str(&raw.xml10_content()),
            Event::GeneralRef(raw) => found[*open.last()?].text.push_str(&reference(raw)?),
            Event::Comment(_) => {}
            Event::PI(raw) => {
                let target = name(raw.target())?;
                if target.eq_ignore_ascii_case("xml") {
                    return None;
                }
            }
            Event::Decl(raw) => {
                if began {
                    return None;
                }
                let tag = BytesStart::from_content(&**raw, 3);
                let encoding = attributes(&tag)?
                    .into_iter()
                    .find(|(name, _)| name == "encoding");
                let encoding = encoding.map_or("UTF-8".to_owned(), |(_, value)| value);
                let known = ["UTF-8", "UTF8", "US-ASCII"];
                if !known
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(&encoding))
                {
                    return None;
                }
            }
            Event::DocType(_) => return None,
            Event::Eof => break,
        }
        began = true;
    }
    (open.is_empty() && !found.is_empty()).then_some(found)
}

/// Names and values, when each name is one, stands after white space, and stands there once.
fn attributes(tag: &BytesStart<'_>) -> Option<Vec<(String, String)>> {
    let mut rest = tag.attributes_raw();
    let mut found = Vec::new();
    for attribute in tag.attributes().with_checks(true) {
        let attribute = attribute.ok()?;
        let key = attribute.key.into_inner();
        let (before, after) = rest.split_once(key)?;
        let (_, after) = after.split_once(&*attribute.value)?;
        rest = after.get(1..)?;
        let references = attribute.value.split('&').skip(1);
        let mut long = references
            .map(|rest| rest.find(';'))
            .filter(|end| *end > Some(15));
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
        let spaced = before.ends_with([' ', '\t', '\r', '\n']);
        if !spaced
            || attribute.value.contains('<')
            || long.next().is_some()
            || !value.chars().all(is_char)
        {
            return None;
        }
        if is_forbidden_declaration(key, &value) {
            return None;
        }
        found.push((name(key)?, value.into_owned()));
    }
    (found.len() <= 256).then_some(found)
}

/// Namespaces in XML 1.0, "Reserved Prefixes and Namespace Names" and "Prefix Declared"; and the limits of domain XML.
fn is_forbidden_declaration(name: &str, uri: &str) -> bool {
    let reserved = [
        "http://www.w3.org/XML/1998/namespace",
        "http://www.w3.org/2000/xmlns/",
    ];
    match name.strip_prefix("xmlns") {
        Some("") => reserved.contains(&uri) || uri.len() > 1024 || uri.contains('&'),
        Some(rest) if rest.starts_with(':') => {
            let prefix = &rest[1..];
            self::name(prefix).is_none()
                || prefix.contains(':')
                || uri.len() > 1024
                || uri.contains('&')
                || ["", "xml", "xmlns"].contains(&prefix)
                || uri.is_empty()
                || reserved.contains(&uri)
        }
        _ => false,
    }
}

fn reference(raw: &str) -> Option<String> {
    if raw.len() > 15 {
        return None;
    }
    if let Some(known) = resolve_predefined_entity(raw) {
        return Some(known.to_owned());
    }
    let event = quick_xml::events::BytesRef::new(raw);
    let character = event.resolve_char_ref().ok()??;
    is_char(character).then(|| character.to_string())
}

/// A qualified name of Namespaces in XML 1.0.
fn name(name: &str) -> Option<String> {
    let starts = |c: char| {
        matches!(c, '_' | 'A'..='Z' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}'
            | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}'
            | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
            | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
            | '\u{10000}'..='\u{EFFFF}')
    };
    let continues = |c: char| {
        starts(c)
            || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}'
                | '\u{203F}'..='\u{2040}')
    };
    let mut parts = name.splitn(2, ':');
    parts
        .all(|part| part.starts_with(starts) && part.chars().all(continues))
        .then(|| name.to_owned())
}

fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}
