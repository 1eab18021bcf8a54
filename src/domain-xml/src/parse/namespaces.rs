//! The namespace declarations in scope.

use super::ParseErrorKind;
use crate::name;

/// The declarations, innermost last. They are few enough for a linear search.
#[derive(Default)]
pub(super) struct Namespaces<'a> {
    bound: Vec<Bound<'a>>,
}

struct Bound<'a> {
    prefix: &'a str,
    /// The canonical prefix of a known namespace.
    canonical: Option<&'static str>,
    /// Depth of the declaring element.
    depth: usize,
}

/// The most declarations in scope; documents have two or three.
const MAX_NAMESPACES: usize = 64;

impl<'a> Namespaces<'a> {
    pub(super) fn declare(
        &mut self,
        prefix: &'a str,
        uri: &str,
        depth: usize,
    ) -> Result<(), ParseErrorKind> {
        if self.bound.len() >= MAX_NAMESPACES {
            return Err(ParseErrorKind::TooManyNamespaces(MAX_NAMESPACES));
        }
        self.bound.push(Bound {
            prefix,
            canonical: name::canonical_prefix(uri),
            depth,
        });
        Ok(())
    }

    /// Removes the declarations of the element at this depth.
    pub(super) fn leave(&mut self, depth: usize) {
        while self.bound.pop_if(|bound| bound.depth >= depth).is_some() {}
    }

    /// The name with the canonical prefix, if it is written with another.
    pub(super) fn canonical(&self, written: &str) -> Option<Box<str>> {
        let means = |bound: &&Bound<'_>| match written.strip_prefix(bound.prefix) {
            Some(rest) if bound.prefix.is_empty() => !rest.contains(':'),
            Some(rest) => rest.starts_with(':'),
            None => false,
        };
        let bound = self.bound.iter().rev().find(means)?;
        name::canonical(written, bound.canonical?)
    }
}
