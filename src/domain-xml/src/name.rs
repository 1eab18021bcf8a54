//! Qualified names of elements and attributes: their parts, and which are valid.

/// `("qemu", "arg")` of `qemu:arg`; an empty prefix if there is none.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

/// The prefix that an attribute declares: `q` for `xmlns:q`, empty for `xmlns`.
pub(crate) fn declared_prefix(attribute: &str) -> Option<&str> {
    match attribute.strip_prefix("xmlns")? {
        "" => Some(""),
        rest => rest.strip_prefix(':'),
    }
}

/// Whether `name` is a valid name of an element or attribute: a qualified name of Namespaces in XML 1.0.
///
/// libvirt's parser accepts a colon elsewhere, but keeps it in the local name: `:uid` is not `uid` to any reader.
pub(crate) fn is_valid(name: &str) -> bool {
    match name.split_once(':') {
        Some((prefix, local)) => is_valid_part(prefix) && is_valid_part(local),
        None => is_valid_part(name),
    }
}

/// Whether this is a prefix or a local name.
pub(crate) fn is_valid_part(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(starts_name) && characters.all(continues)
}

fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic()
        || c == '_'
        || matches!(c as u32,
            0xC0..=0xD6 | 0xD8..=0xF6 | 0xF8..=0x2FF | 0x370..=0x37D | 0x37F..=0x1FFF
            | 0x200C..=0x200D | 0x2070..=0x218F | 0x2C00..=0x2FEF | 0x3001..=0xD7FF
            | 0xF900..=0xFDCF | 0xFDF0..=0xFFFD | 0x10000..=0xEFFFF)
}

/// Whether a prefix or a local name may have this character after its first.
pub(crate) fn continues(c: char) -> bool {
    starts_name(c)
        || c.is_ascii_digit()
        || matches!(c, '-' | '.')
        || matches!(c as u32, 0xB7 | 0x300..=0x36F | 0x203F..=0x2040)
}

// Names with canonical prefixes.
//
// Paths and look-ups use *canonical* names: the prefix of libvirt's documentation, whatever prefix the document
// declares for that namespace.

/// Namespaces that libvirt and KubeVirt define, by canonical prefix. KubeVirt's metadata is
/// written with a default namespace, so its canonical prefix is empty.
const KNOWN: &[(&str, &str)] = &[
    ("qemu", "http://libvirt.org/schemas/domain/qemu/1.0"),
    ("lxc", "http://libvirt.org/schemas/domain/lxc/1.0"),
    ("bhyve", "http://libvirt.org/schemas/domain/bhyve/1.0"),
    ("xen", "http://libvirt.org/schemas/domain/xen/1.0"),
    ("libosinfo", "http://libosinfo.org/xmlns/libvirt/domain/1.0"),
    ("", "http://kubevirt.io"),
];

/// The canonical prefix of a known namespace.
pub(crate) fn canonical_prefix(uri: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|(_, known)| *known == uri)
        .map(|(prefix, _)| *prefix)
}

/// The namespace of a canonical prefix.
pub(crate) fn known_uri(prefix: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|(known, _)| !known.is_empty() && *known == prefix)
        .map(|(_, uri)| *uri)
}

/// The attribute that declares a canonical prefix, and its value.
pub(crate) fn declaration(prefix: &str) -> (String, &'static str) {
    let uri = KNOWN.iter().find(|(known, _)| *known == prefix);
    let attribute = match prefix {
        "" => "xmlns".to_owned(),
        prefix => format!("xmlns:{prefix}"),
    };
    (attribute, uri.map_or("", |(_, uri)| *uri))
}

/// The canonical form of a name in a known namespace, if it differs from `name`.
pub(crate) fn canonical(name: &str, prefix: &str) -> Option<Box<str>> {
    let (written, local) = split(name);
    if written == prefix {
        return None;
    }
    Some(if prefix.is_empty() {
        local.into()
    } else {
        format!("{prefix}:{local}").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_stands_once_and_between_names() {
        for valid in ["a", "a:b", "ä:_b", "a-1:b.2"] {
            assert!(is_valid(valid), "{valid}");
        }
        for invalid in ["", ":", ":a", "a:", "a::b", "a:b:c", "a:1", "1:a"] {
            assert!(!is_valid(invalid), "{invalid}");
        }
    }

    #[test]
    fn canonical_names_have_the_prefix_of_libvirts_documentation() {
        let prefix = canonical_prefix("http://libvirt.org/schemas/domain/qemu/1.0").unwrap_or("?");
        assert_eq!(canonical("q:arg", prefix).as_deref(), Some("qemu:arg"));
        assert_eq!(canonical("qemu:arg", prefix), None);
        let prefix = canonical_prefix("http://kubevirt.io").unwrap_or("?");
        assert_eq!(canonical("k:uid", prefix).as_deref(), Some("uid"));
    }
}
