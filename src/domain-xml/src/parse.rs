//! From text to tree, over quick-xml's events.
//!
//! quick-xml says what each stretch of the text is; the stretch itself is what the tree keeps.

use quick_xml::events::Event;
use quick_xml::reader::Reader;

use crate::element::{End, Node, is_blank};
use crate::{Document, Element, Limits, MAX_DEPTH, escape, name, tag};

/// Why a text is no acceptable document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub kind: ParseErrorKind,
}

/// What can be wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// More bytes than [`Limits::bytes`].
    #[error("the document has {bytes} bytes, more than the {limit} allowed")]
    TooLarge {
        /// Bytes of the document.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Elements nested deeper than [`Limits::depth`].
    #[error("elements are nested deeper than the {0} levels allowed")]
    TooDeep(usize),
    /// More nodes than [`Limits::nodes`].
    #[error("the document has more than the {0} nodes allowed")]
    TooManyNodes(usize),
    /// More attributes on one element than anybody needs.
    #[error("the element has more than the {0} attributes allowed")]
    TooManyAttributes(usize),
    /// More namespace declarations around one place than anybody needs.
    #[error("more than the {0} namespace declarations allowed are in scope")]
    TooManyNamespaces(usize),
    /// A document type declaration, with or without entity declarations.
    #[error("a DOCTYPE is not accepted in domain XML")]
    Doctype,
    /// An encoding declaration that the text contradicts.
    #[error("the document declares encoding {0}, but only UTF-8 is accepted")]
    Encoding(String),
    /// A character that XML does not know.
    #[error("character U+{:04X} cannot stand in XML", u32::from(*.0))]
    BadCharacter(char),
    /// A name that is none.
    #[error("`{0}` is no name of an element or attribute")]
    BadName(String),
    /// A reference that nothing defines.
    #[error("`&{0}` is no reference that XML defines; a plain ampersand is written &amp;")]
    BadReference(String),
    /// Two attributes of one name.
    #[error("attribute {0} is given twice")]
    DuplicateAttribute(String),
    /// An end tag that closes nothing, or something else.
    #[error("</{found}> does not close <{open}>")]
    MismatchedEnd {
        /// The element that is open here.
        open: String,
        /// The end tag.
        found: String,
    },
    /// An element that is never closed.
    #[error("<{0}> is not closed")]
    Unclosed(String),
    /// No element at all.
    #[error("there is no root element")]
    NoRoot,
    /// Something other than comments and white space beside the root element.
    #[error("only comments may stand outside the root element")]
    OutsideRoot,
    /// Any other breach of XML's grammar.
    #[error("{0}")]
    Syntax(String),
}

const BYTE_ORDER_MARK: char = '\u{FEFF}';

/// Reads a document.
pub(crate) fn parse(xml: &str, limits: &Limits) -> Result<Document, ParseError> {
    refuse_oversize(xml, limits)?;
    // The reader counts positions from after a byte order mark, so it never gets to see one.
    match xml.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) if !rest.starts_with(BYTE_ORDER_MARK) => {
            let mut document = read(rest, limits)?;
            document.prolog.insert(0, BYTE_ORDER_MARK);
            Ok(document)
        }
        _ => read(xml, limits),
    }
}

fn read(xml: &str, limits: &Limits) -> Result<Document, ParseError> {
    if xml.starts_with(BYTE_ORDER_MARK) {
        return Err(locate(xml, (0, ParseErrorKind::OutsideRoot)));
    }
    let mut builder = Builder::new(xml, limits);
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    // Tags are matched here, so that the error can name both.
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.check_comments = true;
    loop {
        let from = position(reader.buffer_position());
        let event = reader.read_event();
        let to = position(reader.buffer_position());
        let flaw = match event {
            Ok(Event::Eof) => break,
            Ok(event) => builder.take(&event, from, to),
            Err(error) => {
                let at = position(reader.error_position());
                Err((at, ParseErrorKind::Syntax(grammar(&error))))
            }
        };
        flaw.map_err(|flaw| locate(xml, flaw))?;
    }
    builder.finish().map_err(|flaw| locate(xml, flaw))
}

/// The two kinds of error that reading text without attributes or namespaces can meet. Naming
/// them keeps the texts of all others out of hook modules.
fn grammar(error: &quick_xml::Error) -> String {
    match error {
        quick_xml::Error::Syntax(error) => error.to_string(),
        quick_xml::Error::IllFormed(error) => error.to_string(),
        _ => "this is no XML".to_owned(),
    }
}

fn position(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

fn refuse_oversize(xml: &str, limits: &Limits) -> Result<(), ParseError> {
    if xml.len() > limits.bytes {
        let kind = ParseErrorKind::TooLarge {
            bytes: xml.len(),
            limit: limits.bytes,
        };
        return Err(ParseError {
            line: 1,
            column: 1,
            kind,
        });
    }
    match xml.char_indices().find(|(_, c)| !escape::is_char(*c)) {
        Some((at, c)) => Err(locate(xml, (at, ParseErrorKind::BadCharacter(c)))),
        None => Ok(()),
    }
}

fn locate(xml: &str, (at, kind): tag::Flaw) -> ParseError {
    let mut at = at.min(xml.len());
    while !xml.is_char_boundary(at) {
        at -= 1;
    }
    let before = &xml[..at];
    let line_start = before.rfind('\n').map_or(0, |n| n + 1);
    let line = before.matches('\n').count() + 1;
    ParseError {
        line,
        column: before[line_start..].chars().count() + 1,
        kind,
    }
}

/// The tree so far: the elements still open, innermost last.
struct Builder<'a> {
    xml: &'a str,
    depth: usize,
    nodes_left: usize,
    limits: &'a Limits,
    open: Vec<Open>,
    namespaces: Namespaces,
    prolog: String,
    root: Option<Element>,
    epilog: String,
}

struct Open {
    element: Element,
    at: usize,
    declared: usize,
}

impl<'a> Builder<'a> {
    fn new(xml: &'a str, limits: &'a Limits) -> Self {
        Builder {
            xml,
            depth: limits.depth.min(MAX_DEPTH),
            nodes_left: limits.nodes,
            limits,
            open: Vec::new(),
            namespaces: Namespaces::default(),
            prolog: String::new(),
            root: None,
            epilog: String::new(),
        }
    }

    /// Takes the stretch `from..to`, which is `event`.
    fn take(&mut self, event: &Event<'_>, from: usize, to: usize) -> Result<(), tag::Flaw> {
        let raw = self.xml.get(from..to).unwrap_or_default();
        match event {
            Event::Start(_) => self.start(raw, from, false),
            Event::Empty(_) => self.start(raw, from, true),
            Event::End(_) => self.end(raw, from),
            Event::Text(_) | Event::GeneralRef(_) => self.text(raw, from),
            Event::CData(_) => self.inside(Node::CData(raw.to_owned()), from),
            Event::Comment(_) => self.anywhere(raw, from),
            Event::PI(_) => self.instruction(raw, from),
            Event::Decl(_) => self.declaration(raw, from),
            Event::DocType(_) => Err((from, ParseErrorKind::Doctype)),
            Event::Eof => Ok(()),
        }
    }

    fn spend(&mut self, nodes: usize, at: usize) -> Result<(), tag::Flaw> {
        self.nodes_left = self
            .nodes_left
            .checked_sub(nodes)
            .ok_or((at, ParseErrorKind::TooManyNodes(self.limits.nodes)))?;
        Ok(())
    }

    fn start(&mut self, raw: &str, at: usize, empty: bool) -> Result<(), tag::Flaw> {
        if self.open.is_empty() && self.root.is_some() {
            return Err((at, ParseErrorKind::OutsideRoot));
        }
        if self.open.len() >= self.depth {
            return Err((at, ParseErrorKind::TooDeep(self.depth)));
        }
        let close = if empty { "/>" } else { ">" };
        let inside = raw
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix(close));
        let inside = inside.ok_or((at, ParseErrorKind::Syntax("a tag is not closed".into())))?;
        let tag = tag::parse(inside).map_err(|(offset, kind)| (at + 1 + offset, kind))?;
        self.spend(1 + tag.attributes.len(), at)?;
        let mut element = Element::new("_");
        element.made = false;
        element.name = tag.name;
        element.attributes = tag.attributes;
        element.tail = tag.tail;
        let declared = self.namespaces.enter(&element).map_err(|kind| (at, kind))?;
        element.canonical = self.namespaces.canonical(&element.name);
        self.open.push(Open {
            element,
            at,
            declared,
        });
        if empty {
            self.close(End::SelfClosing)
        } else {
            Ok(())
        }
    }

    fn end(&mut self, raw: &str, at: usize) -> Result<(), tag::Flaw> {
        let inside = raw
            .strip_prefix("</")
            .and_then(|rest| rest.strip_suffix('>'))
            .unwrap_or(raw);
        let found = inside.trim_end_matches([' ', '\t', '\n', '\r']);
        let open = self
            .open
            .last()
            .map_or("", |open| open.element.name.as_str());
        if open != found || open.is_empty() {
            let kind = ParseErrorKind::MismatchedEnd {
                open: open.to_owned(),
                found: found.to_owned(),
            };
            return Err((at, kind));
        }
        self.close(End::Tag(tag::layout(&inside[found.len()..])))
    }

    fn close(&mut self, end: End) -> Result<(), tag::Flaw> {
        if let Some(Open {
            mut element,
            declared,
            ..
        }) = self.open.pop()
        {
            element.end = end;
            self.namespaces.leave(declared);
            match self.open.last_mut() {
                Some(parent) => parent.element.nodes.push(Node::Element(element)),
                None => self.root = Some(element),
            }
        }
        Ok(())
    }

    fn text(&mut self, raw: &str, at: usize) -> Result<(), tag::Flaw> {
        if let Some((offset, reference)) = escape::unknown_reference(raw) {
            return Err((
                at + offset,
                ParseErrorKind::BadReference(reference.to_owned()),
            ));
        }
        if let Some(offset) = raw.as_bytes().windows(3).position(|bytes| bytes == b"]]>") {
            let kind = ParseErrorKind::Syntax("`]]>` must be written ]]&gt; in text".into());
            return Err((at + offset, kind));
        }
        if let Some(Node::Text(text)) = self
            .open
            .last_mut()
            .and_then(|open| open.element.nodes.last_mut())
        {
            text.push_str(raw);
            return Ok(());
        }
        if self.open.is_empty() {
            return if is_blank(raw) {
                self.anywhere(raw, at)
            } else {
                Err((at, ParseErrorKind::OutsideRoot))
            };
        }
        self.inside(Node::Text(raw.to_owned()), at)
    }

    fn inside(&mut self, node: Node, at: usize) -> Result<(), tag::Flaw> {
        self.spend(1, at)?;
        let open = self
            .open
            .last_mut()
            .ok_or((at, ParseErrorKind::OutsideRoot))?;
        open.element.nodes.push(node);
        Ok(())
    }

    /// What may stand inside the root as well as beside it.
    fn anywhere(&mut self, raw: &str, at: usize) -> Result<(), tag::Flaw> {
        if !self.open.is_empty() {
            return self.inside(Node::Other(raw.to_owned()), at);
        }
        let beside = if self.root.is_some() {
            &mut self.epilog
        } else {
            &mut self.prolog
        };
        beside.push_str(raw);
        Ok(())
    }

    fn instruction(&mut self, raw: &str, at: usize) -> Result<(), tag::Flaw> {
        let target = raw
            .strip_prefix("<?")
            .unwrap_or(raw)
            .split(|c: char| c.is_whitespace() || c == '?')
            .next();
        let target = target.unwrap_or_default();
        if !name::is_valid(target) || target.eq_ignore_ascii_case("xml") {
            return Err((at, ParseErrorKind::BadName(target.to_owned())));
        }
        self.anywhere(raw, at)
    }

    fn declaration(&mut self, raw: &str, at: usize) -> Result<(), tag::Flaw> {
        if !self.prolog.is_empty() || !self.open.is_empty() || self.root.is_some() {
            let kind = ParseErrorKind::Syntax(
                "an XML declaration may only stand at the very start".into(),
            );
            return Err((at, kind));
        }
        // Whoever reads the text next believes the declaration: it must not lie.
        let inside = raw
            .strip_prefix("<?")
            .and_then(|rest| rest.strip_suffix("?>"));
        let inside = tag::parse(inside.unwrap_or_default());
        let inside = inside.map_err(|(offset, kind)| (at + 2 + offset, kind))?;
        let encoding = inside
            .attributes
            .iter()
            .find(|attribute| attribute.name == "encoding");
        let encoding = encoding.map_or("UTF-8", |attribute| attribute.raw.as_str());
        if !["UTF-8", "UTF8", "US-ASCII"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(encoding))
        {
            return Err((at, ParseErrorKind::Encoding(encoding.to_owned())));
        }
        self.prolog.push_str(raw);
        Ok(())
    }

    fn finish(mut self) -> Result<Document, tag::Flaw> {
        if let Some(Open { element, at, .. }) = self.open.pop() {
            return Err((at, ParseErrorKind::Unclosed(element.name.clone())));
        }
        let root = self.root.ok_or((self.xml.len(), ParseErrorKind::NoRoot))?;
        Ok(Document {
            prolog: self.prolog,
            root,
            epilog: self.epilog,
        })
    }
}

/// The declarations in scope, innermost last: the prefix that the document gives a namespace, and
/// the canonical one when the namespace is known. Few enough to be searched one by one.
#[derive(Default)]
struct Namespaces {
    bound: Vec<(String, Option<&'static str>)>,
}

/// Documents have two or three.
const MAX_NAMESPACES: usize = 64;

impl Namespaces {
    /// Adds what an element declares and gives how many that were.
    fn enter(&mut self, element: &Element) -> Result<usize, ParseErrorKind> {
        let before = self.bound.len();
        for attribute in &element.attributes {
            if let Some(prefix) = name::declared_prefix(&attribute.name) {
                self.bound.push((
                    prefix.to_owned(),
                    name::canonical_prefix(&attribute.value()),
                ));
            }
        }
        if self.bound.len() > MAX_NAMESPACES {
            return Err(ParseErrorKind::TooManyNamespaces(MAX_NAMESPACES));
        }
        Ok(self.bound.len() - before)
    }

    fn leave(&mut self, declared: usize) {
        self.bound
            .truncate(self.bound.len().saturating_sub(declared));
    }

    fn canonical(&self, written: &str) -> Option<Box<str>> {
        if self.bound.is_empty() {
            return None;
        }
        let prefix = name::split(written).0;
        let (_, canonical) = self.bound.iter().rev().find(|(bound, _)| bound == prefix)?;
        name::canonical(written, (*canonical)?)
    }
}
