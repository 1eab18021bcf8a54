//! Derives the XML of the second definition from libvirt's XML after the first.

use std::collections::HashSet;

use domain_xml::{Document, Element};

use crate::hotplug_ports::error::HotplugPortsError;
use crate::hotplug_ports::placeholder_interface_name::is_placeholder;
use crate::hotplug_ports::spare_root_ports;

/// Devices that keep the address from the first definition. libvirt assigns new addresses to the others in the second
/// definition, also at ports of the removed placeholders, because KubeVirt's types have no address for these devices.
const DEVICES_THAT_KEEP_ADDRESS: [&str; 7] = [
    "controller",
    "disk",
    "hostdev",
    "input",
    "memballoon",
    "rng",
    "watchdog",
];

/// The changes from libvirt's XML to the second definition.
#[derive(Debug)]
pub(crate) struct SecondDefinition {
    spare_ports: usize,
    /// The addresses in the domain before the first definition.
    requested_addresses: HashSet<PciAddress>,
}

impl SecondDefinition {
    pub(crate) fn new(hooked: &Document, spare_ports: usize) -> Self {
        Self {
            spare_ports,
            requested_addresses: devices(hooked)
                .filter_map(PciAddress::from_device)
                .collect(),
        }
    }

    pub(crate) fn render(&self, defined: &str) -> Result<String, HotplugPortsError> {
        let mut domain = Document::parse(defined)?;
        let devices = domain.root_mut().ensure_child("devices");
        devices.remove_children(is_placeholder);
        for device in devices.children_mut() {
            if !DEVICES_THAT_KEEP_ADDRESS.contains(&device.tag_name())
                && PciAddress::from_device(device)
                    .is_some_and(|address| !self.requested_addresses.contains(&address))
            {
                device.remove_child("address");
            }
        }
        spare_root_ports::add(&mut domain, self.spare_ports);
        Ok(domain.render())
    }
}

fn devices(domain: &Document) -> impl Iterator<Item = &Element> {
    let devices = domain.root().child("devices");
    devices.into_iter().flat_map(Element::children)
}

/// A PCI address: domain, bus, slot, function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PciAddress([u32; 4]);

impl PciAddress {
    /// The device's PCI address, if it has one.
    fn from_device(device: &Element) -> Option<Self> {
        let address = device.child("address")?;
        if address.attr("type").as_deref() != Some("pci") {
            return None;
        }
        let part = |name: &str| parse_number(&address.attr(name)?);
        Some(Self([
            part("domain").unwrap_or_default(),
            part("bus")?,
            part("slot")?,
            part("function").unwrap_or_default(),
        ]))
    }
}

/// A number in decimal, or in hexadecimal after `0x`.
fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
