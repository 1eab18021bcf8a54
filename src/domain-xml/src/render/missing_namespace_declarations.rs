//! Declarations of the namespace prefixes that inserted elements use and nothing declares.

use crate::{Element, canonical_name, name};

/// Declarations of known prefixes that inserted elements use and nothing declares. They go to the root, where libvirt
/// reads them.
pub(super) fn missing_declarations(root: &Element, quote: &str) -> String {
    let mut missing: Vec<&str> = Vec::new();
    let mut declarations = String::new();
    let mut pending = vec![root];
    while let Some(element) = pending.pop() {
        if element.as_read().is_some() {
            continue;
        }
        pending.extend(element.children());
        let prefix = name::split(element.tag_name()).0;
        if !element.is_made() || prefix.is_empty() || missing.contains(&prefix) {
            continue;
        }
        if let Some(uri) = canonical_name::known_uri(prefix)
            && !declares(element, prefix)
            && !declares(root, prefix)
        {
            missing.push(prefix);
            for part in [" xmlns:", prefix, "=", quote, uri, quote] {
                declarations.push_str(part);
            }
        }
    }
    declarations
}

fn declares(element: &Element, prefix: &str) -> bool {
    element
        .declarations()
        .any(|(declared, _)| declared == prefix)
}
