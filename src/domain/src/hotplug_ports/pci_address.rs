//! The PCI address of a device in libvirt's XML.

use domain_xml::Element;

/// A PCI address: domain, bus, slot, function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct PciAddress([u32; 4]);

impl PciAddress {
    /// The device's PCI address, if it has one.
    pub(crate) fn from_device(device: &Element) -> Option<Self> {
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

    /// The number of the bus.
    pub(crate) fn bus(&self) -> u32 {
        let [_, bus, ..] = self.0;
        bus
    }
}

/// A number in decimal, or in hexadecimal after `0x`.
fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
