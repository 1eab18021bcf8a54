//! Why a text is refused, with line and column.

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
