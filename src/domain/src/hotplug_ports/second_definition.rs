//! The second definition, made from libvirt's XML of the first.

use std::collections::HashSet;

use domain_xml::{Document, Element};

use crate::hotplug_ports::error::HotplugPortsError;
use crate::hotplug_ports::placeholder_name::is_placeholder;
use crate::hotplug_ports::root_ports;

/// Devices that keep the address from the first definition. libvirt assigns the others new addresses at the second
/// one, among the ports that the placeholders leave: KubeVirt's domain types have no address for them.
const KEEP_ADDRESS: [&str; 7] = [
    "controller",
    "disk",
    "hostdev",
    "input",
    "memballoon",
    "rng",
    "watchdog",
];

/// The changes that make the second definition.
#[derive(Debug)]
pub(crate) struct SecondDefinition {
    spare_ports: usize,
    /// Addresses that the domain had before the first definition.
    requested: HashSet<PciAddress>,
}

impl SecondDefinition {
    pub(crate) fn new(hooked: &Document, spare_ports: usize) -> Self {
        let requested = devices(hooked).filter_map(PciAddress::of).collect();
        Self {
            spare_ports,
            requested,
        }
    }

    pub(crate) fn render(&self, defined: &str) -> Result<String, HotplugPortsError> {
        let mut domain = Document::parse(defined)?;
        let devices = domain.root_mut().ensure_child("devices");
        devices.remove_children(is_placeholder);
        for device in devices.children_mut() {
            if !KEEP_ADDRESS.contains(&device.name())
                && PciAddress::of(device).is_some_and(|address| !self.requested.contains(&address))
            {
                device.remove_child("address");
            }
        }
        root_ports::add(&mut domain, self.spare_ports);
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
    fn of(device: &Element) -> Option<Self> {
        let address = device.child("address")?;
        if address.attr("type").as_deref() != Some("pci") {
            return None;
        }
        let part = |name: &str| number(&address.attr(name)?);
        Some(Self([
            part("domain").unwrap_or_default(),
            part("bus")?,
            part("slot")?,
            part("function").unwrap_or_default(),
        ]))
    }
}

/// A number in decimal, or in hexadecimal after `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
