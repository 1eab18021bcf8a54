//! The running domain, as libvirt describes it, without loss.

use std::collections::BTreeSet;

use domain_xml::{Document, Element};
use kubevirt_api::typed_xml::{ReadElement, WriteElement, XmlWriter};

use super::device_change::LiveDevice;
use crate::libvirt_spec::{Alias, Disk, HostDevice, Interface};
use crate::parse_domain_xml::ParseError;

/// The running domain: libvirt's XML, kept byte for byte.
#[derive(Debug, Clone)]
pub struct LiveDomain(Document);

/// A device of the running domain, typed and as it was read.
pub(crate) struct Live<'a, T> {
    pub(crate) element: &'a Element,
    pub(crate) spec: T,
}

impl LiveDomain {
    /// Reads libvirt's XML of the running domain.
    ///
    /// # Errors
    /// [`ParseError`] if the text is not well-formed, or its root is not `<domain>`.
    pub fn parse(xml: String) -> Result<LiveDomain, ParseError> {
        let document = Document::parse_string(xml)?;
        let root = document.root();
        if !root.is("domain") {
            return Err(ParseError::Root {
                found: root.name().to_owned(),
                expected: "domain",
            });
        }
        Ok(LiveDomain(document))
    }

    /// Whether the domain has a QEMU process.
    pub fn is_running(&self) -> bool {
        self.0.root().attr("id").is_some()
    }

    /// Whether a device of this alias (`ua-NAME`, `virtiomem0`) is in the domain.
    pub fn has_alias(&self, alias: &str) -> bool {
        self.devices().any(|device| self::alias(device) == alias)
    }

    /// The device of this alias, for libvirt.
    pub fn device(&self, alias: &str) -> Option<String> {
        let mut devices = self.devices();
        let device = devices.find(|device| self::alias(device) == alias);
        device.map(Element::render)
    }

    /// The numbers that libvirt has given to the images of the domain.
    pub(crate) fn source_indexes(&self) -> BTreeSet<String> {
        let mut indexes = BTreeSet::new();
        for device in self.devices() {
            for_each_source(device, &mut |source| {
                indexes.extend(source.attr("index").map(|index| index.into_owned()));
            });
        }
        indexes
    }

    /// Copies of the devices of this kind, such as `memory`, to edit.
    pub(crate) fn devices_of(&self, kind: &str) -> Vec<Element> {
        self.elements(kind).cloned().collect()
    }

    /// The devices of this kind.
    pub(crate) fn elements(&self, kind: &str) -> impl Iterator<Item = &Element> {
        self.devices().filter(move |device| device.is(kind))
    }

    pub(crate) fn disks(&self) -> Vec<Live<'_, Disk>> {
        self.read("disk")
    }

    pub(crate) fn interfaces(&self) -> Vec<Live<'_, Interface>> {
        self.read("interface")
    }

    pub(crate) fn host_devices(&self) -> Vec<Live<'_, HostDevice>> {
        self.read("hostdev")
    }

    /// A device with a value that this crate cannot read, which only a hook can have added, is not managed here.
    fn read<'a, T: ReadElement>(&'a self, kind: &str) -> Vec<Live<'a, T>> {
        let devices = self.devices().filter(|device| device.is(kind));
        devices
            .filter_map(|element| {
                let mut spec = T::default();
                spec.read(element).ok()?;
                Some(Live { element, spec })
            })
            .collect()
    }

    fn devices(&self) -> impl Iterator<Item = &Element> {
        let devices = self.0.root().child("devices");
        devices.into_iter().flat_map(Element::children)
    }
}

impl<T> Live<'_, T> {
    /// The device for libvirt. `target` is the name of a device without an alias.
    pub(crate) fn device(&self, target: &str, overlay: Option<String>) -> LiveDevice {
        let alias = alias(self.element);
        let name = match Alias::name_in(&alias) {
            "" => target,
            name => name,
        };
        LiveDevice {
            name: name.to_owned(),
            alias: alias.clone(),
            xml: self.element.render(),
            overlay,
        }
    }
}

pub(crate) fn alias(device: &Element) -> String {
    let alias = device.child("alias").and_then(|alias| alias.attr("name"));
    alias.unwrap_or_default().into_owned()
}

/// Calls `found` with each `<source>` in the element, those of backing images and data files included.
pub(crate) fn for_each_source(element: &Element, found: &mut impl FnMut(&Element)) {
    for child in element.children() {
        if child.is("source") {
            found(child);
        }
        for_each_source(child, found);
    }
}

/// Whether an alias is the one of this volume or interface of the VMI.
pub(crate) fn is_named(alias: Option<&Alias>, name: &str) -> bool {
    alias.is_some_and(|alias| alias.name == name)
}

/// The XML of one device, for libvirt's calls that attach it. `kind` is the element's name, such as `disk`.
pub fn device_xml(kind: &str, device: &impl WriteElement) -> String {
    let mut writer = XmlWriter::new();
    device.write(kind, &mut writer);
    writer.finish()
}
