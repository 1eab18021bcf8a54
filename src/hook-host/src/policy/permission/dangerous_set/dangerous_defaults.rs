//! When libvirt takes the dangerous default of an attribute, and which changes lead to it.
//!
//! libvirt ignores the prefixes of attributes, so that names are compared without them.

use domain_xml::Element;
use domain_xml::host::{Budget, tag_bytes};

use super::attribute_rules::DANGEROUS_DEFAULTS;
use super::local;
use super::rule::DangerousDefault;

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

pub(super) fn lacks_attribute(element: &Element, name: &str) -> bool {
    element.attribute_names().all(|other| local(other) != name)
}

/// Whether an attribute has this value, under each prefix.
fn is_attribute(element: &Element, name: &str, value: &str) -> bool {
    let mut values = element.attrs().filter(|(other, _)| local(other) == name);
    !lacks_attribute(element, name) && values.all(|(_, other)| other == value)
}

/// Whether a display is VNC, and has neither a socket nor an address. Its address is that of its first `<listen>`, and
/// of `@listen`. Spice has another default, which is the loopback address.
pub(super) fn display_has_no_address(graphics: &Element) -> bool {
    let mut listens = graphics
        .children()
        .filter(|child| local(child.tag_name()) == "listen");
    !is_attribute(graphics, "type", "spice")
        && lacks_attribute(graphics, "socket")
        && lacks_attribute(graphics, "listen")
        && listens.next().is_none_or(listen_has_no_address)
}

/// Whether a `<listen>` is for an address, and has none.
pub(super) fn listen_has_no_address(listen: &Element) -> bool {
    let has_no_address = ["socket", "none", "network"]
        .iter()
        .any(|kind| is_attribute(listen, "type", kind));
    !has_no_address && lacks_attribute(listen, "address")
}
