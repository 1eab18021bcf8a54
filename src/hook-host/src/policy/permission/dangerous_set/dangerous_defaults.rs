//! When libvirt takes the dangerous default of an attribute, and which changes lead to it.
//!
//! libvirt ignores the prefixes of attributes, so that names are compared without them.

use domain_xml::Element;
use domain_xml::host::{Budget, tag_bytes};

use super::local;

/// An attribute for which libvirt takes a dangerous default value if an element does not have it. A pattern must name
/// the attribute for a new element that leaves it to the default, and for every other change after which an element does.
pub(super) struct DangerousDefault {
    pub(super) element: &'static str,
    pub(super) attribute: &'static str,
    /// Whether libvirt takes the default for this element.
    pub(super) is_taken: fn(&Element) -> bool,
}

/// Attributes with a dangerous default. Each attribute has a rule for its values too.
pub(super) const DANGEROUS_DEFAULTS: &[DangerousDefault] = &[
    // libvirt's default is QEMU's own network (`user`), through which the guest has the network access of the
    // launcher's container.
    DangerousDefault {
        element: "interface",
        attribute: "type",
        is_taken: |interface| lacks_attribute(interface, "type"),
    },
    // Without a path, newer versions of libvirt take the socket of the host's service.
    DangerousDefault {
        element: "quoteGenerationService",
        attribute: "path",
        is_taken: |service| lacks_attribute(service, "path"),
    },
    // Without an address, VNC listens on `vnc_listen` of qemu.conf, which is 0.0.0.0 in KubeVirt's image and ours.
    DangerousDefault {
        element: "graphics",
        attribute: "listen",
        is_taken: display_has_no_address,
    },
    DangerousDefault {
        element: "listen",
        attribute: "address",
        is_taken: listen_has_no_address,
    },
];

/// The attributes for which libvirt takes a dangerous default in this element.
pub(in super::super) fn dangerous_defaults(element: &Element) -> impl Iterator<Item = &str> {
    taken_defaults(element).map(|default| default.attribute)
}

fn taken_defaults(element: &Element) -> impl Iterator<Item = &'static DangerousDefault> {
    let name = local(element.tag_name());
    let of_element = DANGEROUS_DEFAULTS
        .iter()
        .filter(move |default| default.element == name);
    of_element.filter(|default| (default.is_taken)(element))
}

/// The attributes for which libvirt takes a dangerous default in an element since a change of it or of its content. A
/// spent budget leaves attributes out; the caller then refuses the change.
pub(in super::super) fn new_dangerous_defaults(
    before: &Element,
    after: &Element,
    budget: &Budget<'_>,
) -> Vec<&'static str> {
    let name = local(after.tag_name());
    let has_default = DANGEROUS_DEFAULTS
        .iter()
        .any(|default| default.element == name);
    if !has_default {
        return Vec::new();
    }
    let cost = |element: &Element| {
        let children = element.children().count() as u64;
        budget.spend(children) && budget.spend_text(tag_bytes(element))
    };
    if !cost(before) || !cost(after) {
        return Vec::new();
    }
    let earlier: Vec<&str> = dangerous_defaults(before).collect();
    let taken = taken_defaults(after).map(|default| default.attribute);
    taken.filter(|name| !earlier.contains(name)).collect()
}

fn lacks_attribute(element: &Element, name: &str) -> bool {
    element.attribute_names().all(|other| local(other) != name)
}

/// Whether an attribute has this value, under each prefix.
fn is_attribute(element: &Element, name: &str, value: &str) -> bool {
    let mut values = element.attrs().filter(|(other, _)| local(other) == name);
    !lacks_attribute(element, name) && values.all(|(_, other)| other == value)
}

/// Types of displays that listen on no address by default, or on the loopback address as Spice does.
const CLOSED_BY_DEFAULT: [&str; 5] = ["spice", "sdl", "desktop", "egl-headless", "dbus"];

/// Whether a display, such as VNC, has neither a socket nor an address. Its address is that of its first `<listen>`, and
/// of `@listen`.
fn display_has_no_address(graphics: &Element) -> bool {
    let mut listens = graphics
        .children()
        .filter(|child| local(child.tag_name()) == "listen");
    let mut closed = CLOSED_BY_DEFAULT.iter();
    !closed.any(|kind| is_attribute(graphics, "type", kind))
        && lacks_attribute(graphics, "socket")
        && lacks_attribute(graphics, "listen")
        && listens.next().is_none_or(listen_has_no_address)
}

/// Whether a `<listen>` is for an address, and has none.
fn listen_has_no_address(listen: &Element) -> bool {
    let has_no_address = ["socket", "none", "network"]
        .iter()
        .any(|kind| is_attribute(listen, "type", kind));
    !has_no_address && lacks_attribute(listen, "address")
}
