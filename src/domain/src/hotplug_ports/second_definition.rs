//! Derives the XML of the second definition from libvirt's XML after the first.

use std::collections::HashSet;

use domain_xml::{Document, Element};

use crate::hotplug_ports::error::HotplugPortsError;
use crate::hotplug_ports::fixed_devices::FixedDevices;
use crate::hotplug_ports::pci_address::PciAddress;
use crate::hotplug_ports::placeholder_interface_name::is_placeholder;
use crate::hotplug_ports::port_count::HotplugPorts;
use crate::hotplug_ports::spare_root_ports;

/// Devices that keep the address from a first definition with placeholders. libvirt assigns new addresses to the others
/// in the second definition, also at ports of the removed placeholders, because KubeVirt's types have no address for
/// these devices. Without placeholders KubeVirt has one definition, so that all devices keep their addresses.
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
    ports: HotplugPorts,
    /// The addresses in the domain before the first definition.
    requested_addresses: HashSet<PciAddress>,
    /// The devices whose ports lose hotplug; `None` if all ports keep it.
    fixed_devices: Option<FixedDevices>,
}

impl SecondDefinition {
    pub(crate) fn new(
        hooked: &Document,
        ports: HotplugPorts,
        fixed_devices: Option<FixedDevices>,
    ) -> Self {
        Self {
            ports,
            fixed_devices,
            requested_addresses: devices(hooked)
                .filter_map(PciAddress::from_device)
                .collect(),
        }
    }

    /// Whether the second definition differs from the first, or may do so.
    pub(crate) fn is_needed(&self) -> bool {
        self.ports.placeholders > 0 || self.ports.spare_ports > 0 || self.fixed_devices.is_some()
    }

    pub(crate) fn render(&self, defined: &str) -> Result<String, HotplugPortsError> {
        let mut domain = Document::parse(defined)?;
        if self.ports.placeholders > 0 {
            self.remove_placeholders(&mut domain);
        }
        spare_root_ports::add(&mut domain, self.ports.spare_ports);
        if let Some(fixed_devices) = &self.fixed_devices {
            fixed_devices.switch_hotplug_off(&mut domain);
        }
        Ok(domain.render())
    }

    fn remove_placeholders(&self, domain: &mut Document) {
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
    }
}

fn devices(domain: &Document) -> impl Iterator<Item = &Element> {
    let devices = domain.root().child("devices");
    devices.into_iter().flat_map(Element::children)
}
