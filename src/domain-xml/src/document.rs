//! `Document`: a parsed XML document, with its prolog and epilog.

use std::fmt;
use std::str::FromStr;

use crate::path::PathError;
use crate::source_text::Raw;
use crate::{Element, Limits, ParseError, parse, render};

/// An XML document: one root element, and the text before and after it.
#[derive(Debug, Clone)]
pub struct Document {
    prolog: Raw,
    pub(crate) root: Element,
    epilog: Raw,
}

impl Document {
    /// Reads a document within the default [`Limits`].
    ///
    /// # Errors
    /// If the text is not well-formed XML, or beyond the limits; with line and column.
    pub fn parse(xml: &str) -> Result<Document, ParseError> {
        Document::parse_with(xml, &Limits::default())
    }

    /// Reads a document within the given limits.
    ///
    /// # Errors
    /// If the text is not well-formed XML, or beyond the limits; with line and column.
    pub fn parse_with(xml: &str, limits: &Limits) -> Result<Document, ParseError> {
        parse::parse(xml, limits).map(Document::from_parts)
    }

    /// As [`Document::parse`], for an owned text, which saves a copy.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn parse_string(xml: String) -> Result<Document, ParseError> {
        parse::parse(xml, &Limits::default()).map(Document::from_parts)
    }

    /// A document with this root element.
    pub fn new(root: Element) -> Document {
        Document::from_parts((Raw::default(), root, Raw::default()))
    }

    fn from_parts((prolog, root, epilog): (Raw, Element, Raw)) -> Document {
        Document {
            prolog,
            root,
            epilog,
        }
    }

    /// The root element: `domain`, as a rule.
    pub fn root(&self) -> &Element {
        &self.root
    }

    /// The root element, to edit.
    pub fn root_mut(&mut self) -> &mut Element {
        &mut self.root
    }

    /// The document as text. Unedited parts are byte for byte as they were read.
    pub fn render(&self) -> String {
        render::document(&self.prolog, &self.root, &self.epilog)
    }

    /// [`Element::find`] on the root.
    ///
    /// # Errors
    /// If the path is invalid, or absolute and does not begin with the root.
    pub fn find(&self, path: &str) -> Result<Option<&Element>, PathError> {
        self.root.find(path)
    }

    /// [`Element::find_mut`] on the root.
    ///
    /// # Errors
    /// As [`Document::find`].
    pub fn find_mut(&mut self, path: &str) -> Result<Option<&mut Element>, PathError> {
        self.root.find_mut(path)
    }

    /// [`Element::find_all`] on the root.
    ///
    /// # Errors
    /// As [`Document::find`].
    pub fn find_all(&self, path: &str) -> Result<Vec<&Element>, PathError> {
        self.root.find_all(path)
    }

    /// [`Element::value`] on the root.
    ///
    /// # Errors
    /// As [`Document::find`].
    pub fn value(&self, path: &str) -> Result<Option<String>, PathError> {
        self.root.value(path)
    }

    /// [`Element::ensure`] on the root.
    ///
    /// # Errors
    /// As [`Element::ensure`].
    pub fn ensure(&mut self, path: &str) -> Result<&mut Element, PathError> {
        self.root.ensure(path)
    }
}

/// Documents are equal if their texts are.
impl PartialEq for Document {
    fn eq(&self, other: &Document) -> bool {
        self.render() == other.render()
    }
}

impl Eq for Document {}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

impl FromStr for Document {
    type Err = ParseError;

    fn from_str(xml: &str) -> Result<Self, Self::Err> {
        Document::parse(xml)
    }
}
