//! The declarations in scope.

use super::ParseErrorKind;
use crate::name;

/// Innermost last. Few enough to be searched one by one.
#[derive(Default)]
pub(super) struct Namespaces<'a> {
    bound: Vec<Bound<'a>>,
}

struct Bound<'a> {
    prefix: &'a str,
    /// The prefix that libvirt documents, when the namespace is a known one.
    canonical: Option<&'static str>,
    /// How many elements are around the declaration.
    depth: usize,
}

/// Documents have two or three.
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

    /// Forgets what the element declared that this many are around.
    pub(super) fn leave(&mut self, depth: usize) {
        while self.bound.pop_if(|bound| bound.depth >= depth).is_some() {}
    }

    /// The name with the canonical prefix, when it is written with another.
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
