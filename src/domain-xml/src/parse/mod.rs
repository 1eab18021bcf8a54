//! Parses a document: one scan finds every element and any error; the tree is built from the text on access.

mod namespaces;
mod scan;

use crate::source_text::{ElementTable, Origin, Raw, Source};
use crate::{Element, Limits};
use scan::Scan;

/// Why a text is not an acceptable document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
#[non_exhaustive]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The error.
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
    /// More elements than [`Limits::elements`].
    #[error("the document has more than the {0} elements allowed")]
    TooManyElements(usize),
    /// Too many attributes on one element.
    #[error("the element has more than the {0} attributes allowed")]
    TooManyAttributes(usize),
    /// Too many namespace declarations in scope.
    #[error("more than the {0} namespace declarations allowed are in scope")]
    TooManyNamespaces(usize),
    /// A namespace of more bytes than this.
    #[error("a namespace has more than the {0} bytes allowed")]
    LongNamespace(usize),
    /// A document type declaration, with or without entity declarations.
    #[error("a DOCTYPE is not accepted in domain XML")]
    Doctype,
    /// An encoding other than UTF-8.
    #[error("the document declares encoding {0}, but only UTF-8 is accepted")]
    Encoding(String),
    /// A character that XML forbids.
    #[error("character U+{:04X} cannot stand in XML", u32::from(*.0))]
    BadCharacter(char),
    /// An invalid name.
    #[error("`{0}` is not a name of an element or attribute")]
    BadName(String),
    /// A namespace declaration that XML forbids.
    #[error(
        "{attribute}=\"{uri}\" is not a valid namespace declaration: the prefix is invalid or reserved, or the namespace is empty or reserved"
    )]
    BadNamespace {
        /// The attribute.
        attribute: String,
        /// Its value.
        uri: String,
    },
    /// An undefined reference.
    #[error("`&{0}` is not a reference that XML defines; a plain ampersand is written &amp;")]
    BadReference(String),
    /// Two attributes of one name.
    #[error("attribute {0} is given twice")]
    DuplicateAttribute(String),
    /// An end tag without a start tag, or with another name.
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
    /// There is no element.
    #[error("there is no root element")]
    NoRoot,
    /// Something other than comments and white space outside of the root element.
    #[error("only comments may stand outside the root element")]
    OutsideRoot,
    /// Any other syntax error.
    #[error("{0}")]
    Syntax(String),
}

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
