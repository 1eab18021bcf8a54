//! Paths into a document.
use crate::Element;

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path `{path}`, column {column}: {kind}")]
pub struct PathError {
    /// The text.
    pub path: String,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub kind: PathErrorKind,
}

/// What can be wrong with a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// Not what the grammar expects.
    #[error("expected {0}")]
    Expected(&'static str),
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {}

impl Element {
    /// The first element that the path selects.
    pub fn find(&self, _path: &str) -> Result<Option<&Element>, PathError> {
        Ok(None)
    }
    /// The first element that the path selects, to edit.
    pub fn find_mut(&mut self, _path: &str) -> Result<Option<&mut Element>, PathError> {
        Ok(None)
    }
    /// All elements that the path selects, in document order.
    pub fn find_all(&self, _path: &str) -> Result<Vec<&Element>, PathError> {
        Ok(vec![])
    }
    /// The text that the path selects.
    pub fn value(&self, _path: &str) -> Result<Option<String>, PathError> {
        Ok(None)
    }
    /// The element that the path selects, made when there is none.
    pub fn ensure(&mut self, _path: &str) -> Result<&mut Element, PathError> {
        Ok(self)
    }
}
