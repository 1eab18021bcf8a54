//! From libvirt's description of the first definition to the second one.

use std::collections::HashSet;

use domain_xml::{Document, Element};

use super::{PLACEHOLDER, RoomError, add_ports};

/// Devices that keep the address libvirt gave them at the first definition. The others get one again at
/// the second, among the ports that placeholders have left: KubeVirt's launcher has no place for their
/// address in its domain.
const KEEP: [&str; 7] = [
    "controller",
    "disk",
    "hostdev",
    "input",
    "memballoon",
    "rng",
    "watchdog",
];

/// What is left to do once libvirt has made the ports.
#[derive(Debug)]
pub(super) struct Rest {
    ports: usize,
    /// Addresses that the domain had before libvirt gave any.
    given: HashSet<Place>,
}

impl Rest {
    pub(super) fn new(hooked: &Document, ports: usize) -> Self {
        let given = devices(hooked).filter_map(Place::of).collect();
        Self { ports, given }
    }

    pub(super) fn settle(&self, defined: &str) -> Result<String, RoomError> {
        let mut domain = Document::parse(defined)?;
        let devices = domain.root_mut().ensure_child("devices");
        devices.remove_children(is_placeholder);
        for device in devices.children_mut() {
            if !KEEP.contains(&device.name())
                && Place::of(device).is_some_and(|place| !self.given.contains(&place))
            {
                device.remove_child("address");
            }
        }
        add_ports(&mut domain, self.ports);
        Ok(domain.render())
    }
}

fn devices(domain: &Document) -> impl Iterator<Item = &Element> {
    let devices = domain.root().child("devices");
    devices.into_iter().flat_map(Element::children)
}

fn is_placeholder(device: &Element) -> bool {
    device.is("interface")
        && device
            .child("target")
            .and_then(|target| target.attr("dev"))
            .is_some_and(|name| name.starts_with(PLACEHOLDER))
}

/// A PCI address: domain, bus, slot, function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place([u32; 4]);

impl Place {
    /// The device's own PCI address, if it has one.
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

/// Decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
