//! Reserves PCIe root ports for devices that are hotplugged while the guest runs, because ports cannot be hotplugged.
//! They are counted on the domain after the hooks, so that a device that a hook adds does not use up a port.
//!
//! ```text
//! hooked XML ─plan─▶ first XML ─define─▶ libvirt's XML ─second─▶ second XML ─define─▶ domain
//!                      + placeholder interfaces               - placeholders, + spare ports
//! ```
//!
//! For a placeholder interface libvirt adds a root port next to the ports of the other interfaces. The port stays when
//! the placeholder is removed. Spare ports are added only after libvirt has given each device a port, since libvirt
//! places devices without an address at the ports that it finds. libvirt assigns the addresses, so that they are the
//! same as with KubeVirt's launcher (v1.9, `allocateHotplugPorts`), which has no free ports in a domain without
//! placeholders.
//!
//! From v1.10 on the second definition also switches hotplug off at the ports whose devices stay.

mod error;
mod fixed_devices;
mod free_ports;
mod pci_address;
mod placeholder_interface_name;
mod port_count;
mod second_definition;
mod spare_root_ports;

use domain_xml::{Document, Element};

use crate::convert::arch;
use crate::kubevirt_version::{Behaviour, KubeVirtVersion};
pub use error::HotplugPortsError;
use fixed_devices::FixedDevices;
pub use free_ports::free_root_ports;
use kubevirt_api::vmi::Vmi;
pub use port_count::HotplugPorts;
use second_definition::SecondDefinition;

/// How to define a domain with ports for hotplug, in one or two definitions.
#[derive(Debug)]
pub struct DefinitionPlan {
    ports: HotplugPorts,
    first: String,
    second: SecondDefinition,
}

impl DefinitionPlan {
    /// Plans the definition of the domain that the hooks returned, as the launcher of KubeVirt v1.9 defines it.
    ///
    /// # Errors
    /// [`HotplugPortsError`] for an invalid annotation or domain.
    pub fn plan(vmi: &Vmi, hooked: String) -> Result<Self, HotplugPortsError> {
        Self::plan_for(KubeVirtVersion::V1_9, vmi, hooked)
    }

    /// Like [`Self::plan`], for the launcher of this version.
    ///
    /// # Errors
    /// [`HotplugPortsError`] for an invalid annotation or domain.
    pub fn plan_for(
        version: KubeVirtVersion,
        vmi: &Vmi,
        hooked: String,
    ) -> Result<Self, HotplugPortsError> {
        let mut domain = Document::parse(&hooked)?;
        let name = domain.value("os/type/@arch").ok().flatten();
        let architecture = arch::domain_architecture(name.as_deref());
        let machine = domain.value("os/type/@machine").ok().flatten();
        let machine = machine.as_deref();
        let ports = HotplugPorts::count(architecture, vmi, &domain)?;
        let fixes_devices =
            Behaviour::of(version).fixes_devices_at_root_ports && architecture.has_pcie(machine);
        let fixed_devices = fixes_devices.then(|| FixedDevices::of(vmi));
        let second = SecondDefinition::new(&domain, ports, fixed_devices);
        let first = match ports.placeholders {
            0 => hooked,
            placeholders => {
                let model = architecture.virtio_model(vmi.is_virtio_transitional());
                add_placeholders(&mut domain, model, placeholders);
                domain.render()
            }
        };
        Ok(Self {
            ports,
            first,
            second,
        })
    }

    /// The reserved ports.
    pub fn ports(&self) -> HotplugPorts {
        self.ports
    }

    /// The XML of the first definition.
    pub fn first(&self) -> &str {
        &self.first
    }

    /// Whether there is a second definition.
    pub fn has_second(&self) -> bool {
        self.second.is_needed()
    }

    /// The XML of the second definition, if there is one. `defined` is libvirt's XML of the inactive domain after the
    /// first definition. Everything except the placeholders is kept.
    ///
    /// # Errors
    /// [`HotplugPortsError::Xml`] if libvirt's XML is not well-formed.
    pub fn second(&self, defined: &str) -> Result<Option<String>, HotplugPortsError> {
        match self.second.is_needed() {
            true => self.second.render(defined).map(Some),
            false => Ok(None),
        }
    }
}

fn add_placeholders(domain: &mut Document, model: &str, count: usize) {
    let devices = domain.root_mut().ensure_child("devices");
    for number in 0..count {
        let target = Element::new("target")
            .with_attr("dev", placeholder_interface_name::name(number))
            .with_attr("managed", "no");
        let placeholder = Element::new("interface")
            .with_attr("type", "ethernet")
            .with_child(target)
            .with_child(Element::new("model").with_attr("type", model));
        // Placeholders come after the other interfaces, because libvirt assigns addresses in this order.
        devices.insert_after("interface", placeholder);
    }
}
