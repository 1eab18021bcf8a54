//! The nodes of the domain that no grant lets a hook change.

use std::fmt;

use domain_xml::Element;
use domain_xml::host::tag_bytes;

use super::dangerous_set::{local, parent_name};

/// The namespace of KubeVirt's metadata.
const KUBEVIRT_NAMESPACE: &str = "http://kubevirt.io";

/// Nodes that no hook may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReservedNode {
    /// `/domain/name`
    Name,
    /// `/domain/uuid`, and the UUID in `/domain/sysinfo/system`, from which libvirt takes the domain's if there is no
    /// other.
    Uuid,
    /// KubeVirt's element in `/domain/metadata`.
    Metadata,
}

impl fmt::Display for ReservedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReservedNode::Name => "the domain's name",
            ReservedNode::Uuid => "the domain's UUID",
            ReservedNode::Metadata => "KubeVirt's metadata",
        })
    }
}

/// The reserved node that an element at this depth is, if any; the root has depth 0.
pub(super) fn reserved(
    depth: usize,
    element: &Element,
    parent: Option<&Element>,
) -> Option<ReservedNode> {
    match (depth, parent_name(parent), local(element.tag_name())) {
        (1, _, "name") => Some(ReservedNode::Name),
        (1, _, "uuid") => Some(ReservedNode::Uuid),
        (2, "metadata", _) if is_kubevirts(element) => Some(ReservedNode::Metadata),
        (3, "system", "entry") if is_uuid(element) => Some(ReservedNode::Uuid),
        _ => None,
    }
}

/// Whether an entry of SMBIOS is the UUID. libvirt reads the name as it is; other notations of it are no entry of SMBIOS.
fn is_uuid(entry: &Element) -> bool {
    let mut attributes = entry.attrs();
    attributes
        .any(|(name, value)| local(name) == "name" && value.trim().eq_ignore_ascii_case("uuid"))
}

/// Whether a child of `<metadata>` is KubeVirt's, by name or by namespace: libvirt keeps one child of each namespace,
/// whatever its name is.
pub(crate) fn is_kubevirts(child: &Element) -> bool {
    local(child.tag_name()) == "kubevirt"
        || child.namespace().as_deref() == Some(KUBEVIRT_NAMESPACE)
}

/// The bytes that [`is_kubevirts`] reads: namespaces are declared in the child or in its ancestors.
pub(crate) fn namespace_bytes(root: &Element, metadata: &Element, child: &Element) -> usize {
    tag_bytes(root) + tag_bytes(metadata) + tag_bytes(child)
}
