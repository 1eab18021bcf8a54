//! Access to the `<disk>` elements of a domain, and to their names.

use domain_xml::{Document, Element};

use crate::libvirt_spec::Alias;

/// The disks of a domain.
pub(super) fn disks(domain: &Document) -> impl Iterator<Item = &Element> {
    let devices = domain.root().child("devices");
    devices
        .into_iter()
        .flat_map(|devices| devices.children_named("disk"))
}

/// The disks of a domain, mutable.
pub(super) fn disks_mut(domain: &mut Document) -> impl Iterator<Item = &mut Element> {
    let devices = domain.root_mut().child_mut("devices");
    let children = devices.into_iter().flat_map(Element::children_mut);
    children.filter(|device| device.is("disk"))
}

/// The name of the disk's volume, which is the disk's alias.
pub(super) fn volume(disk: &Element) -> String {
    let alias = attr(disk.child("alias"), "name");
    Alias::name_in(&alias).to_owned()
}

/// The target name, such as `vda`.
pub(super) fn target(disk: &Element) -> String {
    attr(disk.child("target"), "dev")
}

/// An attribute of an element; empty if the element or the attribute is missing.
pub(super) fn attr(element: Option<&Element>, name: &str) -> String {
    let value = element.and_then(|element| element.attr(name));
    value.unwrap_or_default().into_owned()
}
