//! The namespace declarations in scope while a document is parsed.

use super::ParseErrorKind;
use crate::{canonical_name, name};

/// The declarations, innermost last. They are few enough for a linear search.
#[derive(Default)]
pub(super) struct Namespaces<'a> {
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
    pub(super) fn declare(
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
            canonical: canonical_name::canonical_prefix(uri),
            depth,
        });
        Ok(())
    }

    /// Removes the declarations of the element at this depth.
    pub(super) fn pop_element(&mut self, depth: usize) {
        while self
            .declarations
            .pop_if(|declaration| declaration.depth >= depth)
            .is_some()
        {}
    }

    /// The name with the canonical prefix, if it is written with another.
    pub(super) fn canonical(&self, written: &str) -> Option<Box<str>> {
        let matches_prefix =
            |declaration: &&Declaration<'_>| match written.strip_prefix(declaration.prefix) {
                Some(rest) if declaration.prefix.is_empty() => !rest.contains(':'),
                Some(rest) => rest.starts_with(':'),
                None => false,
            };
        let declaration = self.declarations.iter().rev().find(matches_prefix)?;
        canonical_name::canonical(written, declaration.canonical?)
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
