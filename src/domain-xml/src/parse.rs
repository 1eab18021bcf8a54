//! Parses a document: one scan finds every element and any error; the tree is built from the text on access.

mod scan;

use crate::source_text::{ElementTable, Origin, Raw, Source};
use crate::{Element, Limits, name};
use scan::Scan;

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
    /// More bytes than [`Limits::bytes`](crate::Limits::bytes).
    #[error("the document has {bytes} bytes, more than the {limit} allowed")]
    TooLarge {
        /// Bytes of the document.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Elements nested deeper than [`Limits::depth`](crate::Limits::depth).
    #[error("elements are nested deeper than the {0} levels allowed")]
    TooDeep(usize),
    /// More nodes than [`Limits::nodes`](crate::Limits::nodes).
    #[error("the document has more than the {0} nodes allowed")]
    TooManyNodes(usize),
    /// More elements than [`Limits::elements`](crate::Limits::elements).
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
    /// A namespace with an ampersand.
    #[error(
        "{attribute}=\"{uri}\": an ampersand in a namespace is not accepted, since libvirt's parser reads another namespace"
    )]
    AmpersandInNamespace {
        /// The attribute.
        attribute: String,
        /// Its value, without escapes.
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

/// The declarations, innermost last. They are few enough for a linear search.
#[derive(Default)]
struct Namespaces<'a> {
    declarations: Vec<Declaration<'a>>,
}

struct Declaration<'a> {
    prefix: &'a str,
    /// The canonical prefix of a known namespace.
    canonical: Option<&'static str>,
    /// Depth of the declaring element.
    depth: usize,
}

/// Maximum number of declarations in scope; documents have two or three.
const MAX_NAMESPACES: usize = 64;
/// Maximum length of a namespace in bytes. Each name in it is compared with the whole namespace, so that a long one
/// costs more than its own bytes; those of libvirt have some 40.
const MAX_NAMESPACE_BYTES: usize = 1024;
/// Prefixes and namespaces that no document may declare.
const RESERVED_PREFIXES: [&str; 2] = ["xml", "xmlns"];
const RESERVED_NAMESPACES: [&str; 2] = [
    "http://www.w3.org/XML/1998/namespace",
    "http://www.w3.org/2000/xmlns/",
];

impl<'a> Namespaces<'a> {
    /// Adds the declaration that an attribute makes, if it makes one.
    ///
    /// What XML forbids in a declaration is refused. libvirt's parser ignores such a declaration, so that an outer one,
    /// which seems to be hidden, still holds there. An ampersand is refused too: libvirt's parser keeps it escaped, so
    /// that it reads `a&#38;b` for `a&amp;b`.
    fn declare(
        &mut self,
        attribute: &'a str,
        uri: &str,
        depth: usize,
    ) -> Result<(), ParseErrorKind> {
        let Some(prefix) = name::declared_prefix(attribute) else {
            return Ok(());
        };
        if !is_declaration(attribute, prefix, uri) {
            return Err(ParseErrorKind::BadNamespace {
                attribute: attribute.to_owned(),
                uri: uri.to_owned(),
            });
        }
        if uri.contains('&') {
            return Err(ParseErrorKind::AmpersandInNamespace {
                attribute: attribute.to_owned(),
                uri: uri.to_owned(),
            });
        }
        if uri.len() > MAX_NAMESPACE_BYTES {
            return Err(ParseErrorKind::LongNamespace(MAX_NAMESPACE_BYTES));
        }
        if self.declarations.len() >= MAX_NAMESPACES {
            return Err(ParseErrorKind::TooManyNamespaces(MAX_NAMESPACES));
        }
        self.declarations.push(Declaration {
            prefix,
            canonical: name::canonical_prefix(uri),
            depth,
        });
        Ok(())
    }

    /// Removes the declarations of the element at this depth.
    fn pop_element(&mut self, depth: usize) {
        while self
            .declarations
            .pop_if(|declaration| declaration.depth >= depth)
            .is_some()
        {}
    }

    /// The name with the canonical prefix, if it is written with another.
    fn canonical(&self, written: &str) -> Option<Box<str>> {
        let matches_prefix =
            |declaration: &&Declaration<'_>| match written.strip_prefix(declaration.prefix) {
                Some(rest) if declaration.prefix.is_empty() => !rest.contains(':'),
                Some(rest) => rest.starts_with(':'),
                None => false,
            };
        let declaration = self.declarations.iter().rev().find(matches_prefix)?;
        name::canonical(written, declaration.canonical?)
    }
}

/// Whether the declaration is one by the rules of Namespaces in XML 1.0.
fn is_declaration(attribute: &str, prefix: &str, uri: &str) -> bool {
    let binds_prefix = || {
        let is_name = name::is_valid_part(prefix);
        is_name && !RESERVED_PREFIXES.contains(&prefix) && !uri.is_empty()
    };
    (attribute == "xmlns" || binds_prefix()) && !RESERVED_NAMESPACES.contains(&uri)
}

#[cfg(test)]
mod tests {
    use crate::Document;

    const QEMU: &str = "http://libvirt.org/schemas/domain/qemu/1.0";

    #[test]
    fn declarations_that_libvirts_parser_ignores_are_refused() {
        for ignored in [
            "xmlns:='http://kubevirt.io'",
            "xmlns:=''",
            "xmlns:q=''",
            "xmlns:1q='urn:x'",
            "xmlns:q:r='urn:x'",
            "xmlns:xml='urn:x'",
            "xmlns:xmlns='urn:x'",
            "xmlns='http://www.w3.org/XML/1998/namespace'",
            "xmlns:q='http://www.w3.org/2000/xmlns/'",
            "xmlns:q='http://www.w3.org/2000/xmlns&#47;'",
        ] {
            let xml = format!("<a xmlns:q='{QEMU}' xmlns='{QEMU}'><q:b {ignored}/></a>");
            let error = Document::parse(&xml).map(drop).unwrap_err().to_string();
            let reasons = ["not a valid namespace declaration", "is not a name of"];
            assert!(
                reasons.iter().any(|reason| error.contains(reason)),
                "{ignored}: {error}"
            );
        }
        for ampersand in ["xmlns='a&amp;b'", "xmlns:q='a&#38;b'", "xmlns='&#x26;amp;'"] {
            let error = Document::parse(&format!("<a {ampersand}/>")).map(drop);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("ampersand"), "{ampersand}: {error}");
        }
        for allowed in ["xmlns=''", "xmlns='urn:x'", "xmlns:q='urn:x'", "xmlnsq=''"] {
            let xml = format!("<a xmlns:q='{QEMU}' xmlns='{QEMU}'><q:b {allowed}/></a>");
            Document::parse(&xml).unwrap();
        }
    }
}
