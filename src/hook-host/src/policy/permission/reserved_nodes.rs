//! The nodes of the domain that no grant lets a hook change.

use std::fmt;

use domain_xml::Element;

use super::dangerous_set::{local, parent_name};

/// Nodes that no hook may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserved {
    /// `/domain/name`
    Name,
    /// `/domain/uuid`
    Uuid,
    /// KubeVirt's element in `/domain/metadata`.
    Metadata,
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reserved::Name => "the domain's name",
            Reserved::Uuid => "the domain's UUID",
            Reserved::Metadata => "KubeVirt's metadata",
        })
    }
}

/// Whether the element at this depth below the root is reserved.
pub(super) fn reserved(
    depth: usize,
    element: &Element,
    parent: Option<&Element>,
) -> Option<Reserved> {
    match (depth, parent_name(parent), local(element.name())) {
        (1, _, "name") => Some(Reserved::Name),
        (1, _, "uuid") => Some(Reserved::Uuid),
        (2, "metadata", "kubevirt") => Some(Reserved::Metadata),
        _ => None,
    }
}
