//! Names with canonical prefixes.
//!
//! Paths and look-ups use *canonical* names: the prefix of libvirt's documentation, whatever prefix the document
//! declares for that namespace.

use crate::name;

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
    let (written, local) = name::split(name);
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
    fn canonical_names_have_the_prefix_of_libvirts_documentation() {
        let prefix = canonical_prefix("http://libvirt.org/schemas/domain/qemu/1.0").unwrap_or("?");
        assert_eq!(canonical("q:arg", prefix).as_deref(), Some("qemu:arg"));
        assert_eq!(canonical("qemu:arg", prefix), None);
        let prefix = canonical_prefix("http://kubevirt.io").unwrap_or("?");
        assert_eq!(canonical("k:uid", prefix).as_deref(), Some("uid"));
    }
}
