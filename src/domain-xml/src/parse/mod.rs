//! Parses a document: one scan finds every element and any error; the tree is built from the text on access.

mod declared_namespaces;
mod parse_error;
mod scan;

use crate::source_text::{ElementTable, Origin, Raw, Source};
use crate::{Element, Limits};
use scan::Scan;

pub use parse_error::{ParseError, ParseErrorKind};

/// An error, and its position in bytes.
struct Flaw {
    at: usize,
    kind: ParseErrorKind,
}

/// The error is boxed, so that results stay small.
type ScanResult<T> = Result<T, Box<Flaw>>;

fn flaw(at: usize, kind: ParseErrorKind) -> Box<Flaw> {
    Box::new(Flaw { at, kind })
}

const BYTE_ORDER_MARK: char = '\u{FEFF}';

/// Reads a document: its prolog, root element and epilog.
pub(crate) fn parse<T>(text: T, limits: &Limits) -> Result<(Raw, Element, Raw), ParseError>
where
    T: AsRef<str> + Into<Box<str>>,
{
    let found = scan(text.as_ref(), limits)?;
    let (prolog, root, epilog) = Origin::root(Source::new(text.into(), found));
    Ok((prolog, Element::read(root), epilog))
}

fn scan(xml: &str, limits: &Limits) -> Result<ElementTable, ParseError> {
    let found = refuse_oversize(xml, limits).and_then(|()| Scan::new(xml, limits).run());
    found.map_err(|flaw| locate(xml, *flaw))
}

/// Positions have 32 bits.
const MAX_BYTES: usize = u32::MAX as usize;

fn refuse_oversize(xml: &str, limits: &Limits) -> ScanResult<()> {
    let limit = limits.bytes.min(MAX_BYTES);
    if xml.len() <= limit {
        return Ok(());
    }
    let bytes = xml.len();
    Err(flaw(0, ParseErrorKind::TooLarge { bytes, limit }))
}

fn locate(xml: &str, Flaw { mut at, kind }: Flaw) -> ParseError {
    at = at.min(xml.len());
    while !xml.is_char_boundary(at) {
        at -= 1;
    }
    let before = &xml[..at];
    let before = before.strip_prefix(BYTE_ORDER_MARK).unwrap_or(before);
    let line_start = before.rfind('\n').map_or(0, |n| n + 1);
    let line = before.matches('\n').count() + 1;
    ParseError {
        line,
        column: before[line_start..].chars().count() + 1,
        kind,
    }
}
