//! Counts the placeholders and spare ports of a domain. The numbers are KubeVirt's.

use domain_xml::{Document, Element};
use kubevirt_api::vmi::Vmi;

use crate::convert::arch::Architecture;
use crate::hotplug_ports::error::HotplugPortsError;
use crate::libvirt_spec::is_pci_root_bus;
use crate::memory_amount::memory_amount;

const SLOT_COUNT_ANNOTATION: &str = "kubevirt.io/pci-interface-slot-count";
/// The maximum value of the annotation, which is more than a machine has root ports for.
const MAX_SLOTS: usize = 256;
/// Interfaces that a guest with at least one interface can have in total.
const MAX_INTERFACES: usize = 4;
/// A guest with more memory than this, in bytes, is a large guest.
const LARGE_GUEST_BYTES: u128 = 2 * 1024 * 1024 * 1024;

/// The number of ports of a guest.
struct PortLimits {
    total: usize,
    min_free: usize,
}

const LARGE_GUEST: PortLimits = PortLimits {
    total: 16,
    min_free: 6,
};
const SMALL_GUEST: PortLimits = PortLimits {
    total: 8,
    min_free: 3,
};

/// The ports that are reserved in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotplugPorts {
    /// Interfaces of the first definition for which libvirt adds ports. The second definition removes the interfaces.
    pub placeholders: usize,
    /// Spare PCIe root ports, after all other ports.
    pub spare_ports: usize,
}

impl HotplugPorts {
    /// Counts the ports for the domain that the hooks returned.
    pub(crate) fn count(
        architecture: &dyn Architecture,
        vmi: &Vmi,
        domain: &Document,
    ) -> Result<Self, HotplugPortsError> {
        let machine = domain.value("os/type/@machine").ok().flatten();
        // PCI without PCI Express has no root ports.
        if !architecture.has_pcie(machine.as_deref()) {
            return Ok(Self {
                placeholders: 0,
                spare_ports: 0,
            });
        }
        let placeholders = placeholder_count(vmi)?;
        let spare_ports = if vmi.is_on_root_complex() {
            0
        } else {
            free_port_count(domain)?.saturating_sub(placeholders)
        };
        Ok(Self {
            placeholders,
            spare_ports,
        })
    }
}

/// The number of placeholders, one for each interface that can be hotplugged. A VM that was created with another number
/// has it in its annotation and keeps it.
fn placeholder_count(vmi: &Vmi) -> Result<usize, HotplugPortsError> {
    let interfaces = vmi.spec.domain.devices.interfaces.len();
    if let Some(value) = vmi.annotation(SLOT_COUNT_ANNOTATION) {
        let slots: i64 = value.parse().map_err(|_| invalid_slot_count(value))?;
        return match usize::try_from(slots.max(0)) {
            Ok(slots) if slots <= MAX_SLOTS => Ok(slots.saturating_sub(interfaces)),
            _ => Err(invalid_slot_count(value)),
        };
    }
    if interfaces == 0 || vmi.is_on_root_complex() {
        return Ok(0);
    }
    Ok(MAX_INTERFACES.saturating_sub(interfaces))
}

fn invalid_slot_count(value: &str) -> HotplugPortsError {
    HotplugPortsError::Annotation {
        annotation: SLOT_COUNT_ANNOTATION,
        value: value.to_owned(),
        most: MAX_SLOTS,
    }
}

fn free_port_count(domain: &Document) -> Result<usize, HotplugPortsError> {
    let limits = if memory_bytes(domain)? > LARGE_GUEST_BYTES {
        LARGE_GUEST
    } else {
        SMALL_GUEST
    };
    let free = limits.total.saturating_sub(used_port_count(domain));
    Ok(free.max(limits.min_free))
}

/// The memory at boot in bytes.
fn memory_bytes(domain: &Document) -> Result<u128, HotplugPortsError> {
    let Some(element) = domain.root().child("memory") else {
        return Ok(0);
    };
    memory_amount(element).ok_or_else(|| HotplugPortsError::Memory {
        amount: element.text(),
        unit: element.attr("unit").unwrap_or_default().into_owned(),
    })
}

/// The number of devices that use a port. As in KubeVirt, controllers are included, although not all are PCI devices.
fn used_port_count(domain: &Document) -> usize {
    let devices = domain.root().child("devices");
    let devices = devices.into_iter().flat_map(Element::children);
    devices
        .filter(|device| uses_port(device) && may_be_pci(device))
        .count()
}

/// Whether the device is of a kind that is connected to a port.
pub(crate) fn uses_port(device: &Element) -> bool {
    let has = |attribute: &str, value: &str| device.attr(attribute).as_deref() == Some(value);
    match device.tag_name() {
        "interface" | "watchdog" | "rng" | "memballoon" => true,
        "hostdev" => has("type", "pci"),
        "controller" => !device
            .attr("model")
            .is_some_and(|model| is_pci_root_bus(&model)),
        "disk" => {
            let target = device.child("target");
            target.is_some_and(|target| target.attr("bus").as_deref() == Some("virtio"))
        }
        "input" => has("bus", "virtio"),
        _ => false,
    }
}

/// Whether the device's address, if it has one, is on a PCI bus.
fn may_be_pci(device: &Element) -> bool {
    let kind = device
        .child("address")
        .and_then(|address| address.attr("type"));
    kind.is_none_or(|kind| kind == "pci")
}
