//! How many ports a domain gets. The numbers are KubeVirt's.

use domain_xml::{Document, Element};
use kubevirt_api::vmi::Vmi;

use crate::convert::arch;
use crate::hotplug_ports::error::HotplugPortsError;

const SLOT_COUNT: &str = "kubevirt.io/pci-interface-slot-count";
/// More interfaces than a machine has root ports for.
const MAX_SLOTS: usize = 256;
/// Interfaces that a guest with at least one interface can have in total.
const MAX_INTERFACES: usize = 4;
/// A guest with more memory than this, in bytes, gets the ports of a large guest.
const LARGE_MEMORY: u128 = 2 * 1024 * 1024 * 1024;
/// Ports in total, and the minimum of free ports: of a large guest, and of others.
const LARGE_PORTS: (usize, usize) = (16, 6);
const PORTS: (usize, usize) = (8, 3);

/// The ports that are reserved in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotplugPorts {
    /// Interfaces of the first definition for which libvirt adds ports; the second definition drops them.
    pub placeholders: usize,
    /// Spare PCIe root ports, above all others.
    pub spare_ports: usize,
}

impl HotplugPorts {
    pub(crate) fn of(vmi: &Vmi, domain: &Document) -> Result<Self, HotplugPortsError> {
        let machine = domain.value("os/type/@machine").ok().flatten();
        // Plain PCI has no root ports.
        if !arch::has_pcie(machine.as_deref()) {
            return Ok(Self {
                placeholders: 0,
                spare_ports: 0,
            });
        }
        let placeholders = placeholders(vmi)?;
        let spare_ports = if vmi.is_on_root_complex() {
            0
        } else {
            free_ports(domain)?.saturating_sub(placeholders)
        };
        Ok(Self {
            placeholders,
            spare_ports,
        })
    }
}

/// Placeholders for the interfaces that can be hotplugged. A VM that was created with another number keeps it.
fn placeholders(vmi: &Vmi) -> Result<usize, HotplugPortsError> {
    let interfaces = vmi.spec.domain.devices.interfaces.len();
    if let Some(value) = vmi.annotation(SLOT_COUNT) {
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
        annotation: SLOT_COUNT,
        value: value.to_owned(),
        most: MAX_SLOTS,
    }
}

fn free_ports(domain: &Document) -> Result<usize, HotplugPortsError> {
    let (all, free) = if memory(domain)? > LARGE_MEMORY {
        LARGE_PORTS
    } else {
        PORTS
    };
    Ok(all.saturating_sub(pci_devices(domain)).max(free))
}

/// Bytes of memory at boot. The unit is libvirt's, KiB by default.
fn memory(domain: &Document) -> Result<u128, HotplugPortsError> {
    let Some(element) = domain.root().child("memory") else {
        return Ok(0);
    };
    let amount = element.text();
    let unit = element.attr("unit").unwrap_or_default();
    let bytes = match &*unit.to_ascii_lowercase() {
        "b" | "bytes" => 1,
        "kb" => 1000,
        "" | "k" | "kib" => 1024,
        "mb" => 1000_u128.pow(2),
        "m" | "mib" => 1024_u128.pow(2),
        "gb" => 1000_u128.pow(3),
        "g" | "gib" => 1024_u128.pow(3),
        "tb" => 1000_u128.pow(4),
        "t" | "tib" => 1024_u128.pow(4),
        _ => 0,
    };
    match amount.trim().parse::<u64>() {
        Ok(amount) if bytes > 0 => Ok(u128::from(amount) * bytes),
        _ => Err(HotplugPortsError::Memory {
            amount,
            unit: unit.into_owned(),
        }),
    }
}

/// Devices that take a port. As in KubeVirt, controllers count too, though not all of them are PCI devices.
fn pci_devices(domain: &Document) -> usize {
    let devices = domain.root().child("devices");
    let devices = devices.into_iter().flat_map(Element::children);
    let counted = devices.filter(|device| takes_a_port(device) && may_be_pci(device));
    counted.count()
}

fn takes_a_port(device: &Element) -> bool {
    let is = |attribute: &str, value: &str| device.attr(attribute).as_deref() == Some(value);
    match device.name() {
        "interface" | "watchdog" | "rng" | "memballoon" => true,
        "hostdev" => is("type", "pci"),
        "controller" => {
            let buses = ["pci-root", "pcie-root", "pcie-expander-bus"];
            !buses.iter().any(|bus| is("model", bus))
        }
        "disk" => {
            let target = device.child("target");
            target.is_some_and(|target| target.attr("bus").as_deref() == Some("virtio"))
        }
        "input" => is("bus", "virtio"),
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
