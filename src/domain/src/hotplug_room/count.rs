//! How much room a domain gets. The numbers are KubeVirt's.

use domain_xml::{Document, Element};

use super::RoomError;
use crate::vmi::Vmi;

const SLOT_COUNT: &str = "kubevirt.io/pci-interface-slot-count";
/// More interfaces than root ports fit a machine.
const MOST_SLOTS: usize = 256;
/// Interfaces that a guest with at least one can have, in all.
const INTERFACES: usize = 4;
/// Guests with more memory than this, in bytes, have more room.
const LARGE: u128 = 2 * 1024 * 1024 * 1024;
/// Ports in all, and free ones at least: of a large guest, and of others.
const LARGE_PORTS: (usize, usize) = (16, 6);
const PORTS: (usize, usize) = (8, 3);

/// What is added to a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Interfaces that keep places free in the first definition, and are gone in the last.
    pub placeholders: usize,
    /// Spare PCIe root ports, above all others.
    pub ports: usize,
}

impl Room {
    pub(super) fn of(vmi: &Vmi, domain: &Document) -> Result<Self, RoomError> {
        if !has_pcie(domain) {
            return Ok(Self {
                placeholders: 0,
                ports: 0,
            });
        }
        let placeholders = placeholders(vmi)?;
        let ports = if vmi.is_on_root_complex() {
            0
        } else {
            free_ports(domain)?.saturating_sub(placeholders)
        };
        Ok(Self {
            placeholders,
            ports,
        })
    }
}

/// Only PCI Express has root ports.
fn has_pcie(domain: &Document) -> bool {
    let machine = domain.value("os/type/@machine").ok().flatten();
    machine.is_none_or(|machine| machine.contains("q35") || machine.starts_with("virt"))
}

/// As many as interfaces may come; a VM that was made with another number keeps it.
fn placeholders(vmi: &Vmi) -> Result<usize, RoomError> {
    let interfaces = vmi.spec.domain.devices.interfaces.len();
    if let Some(value) = vmi.annotation(SLOT_COUNT) {
        let slots: i64 = value.parse().map_err(|_| not_a_count(value))?;
        return match usize::try_from(slots.max(0)) {
            Ok(slots) if slots <= MOST_SLOTS => Ok(slots.saturating_sub(interfaces)),
            _ => Err(not_a_count(value)),
        };
    }
    if interfaces == 0 || vmi.is_on_root_complex() {
        return Ok(0);
    }
    Ok(INTERFACES.saturating_sub(interfaces))
}

fn not_a_count(value: &str) -> RoomError {
    RoomError::Annotation {
        annotation: SLOT_COUNT,
        value: value.to_owned(),
        most: MOST_SLOTS,
    }
}

fn free_ports(domain: &Document) -> Result<usize, RoomError> {
    let (all, free) = if memory(domain)? > LARGE {
        LARGE_PORTS
    } else {
        PORTS
    };
    Ok(all.saturating_sub(pci_devices(domain)).max(free))
}

/// Bytes of memory at boot. Units are libvirt's, KiB without one.
fn memory(domain: &Document) -> Result<u128, RoomError> {
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
        _ => Err(RoomError::Memory {
            amount,
            unit: unit.into_owned(),
        }),
    }
}

/// Devices that take a port. KubeVirt counts these kinds, controllers that are no device among them.
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

/// An address on another bus says that it is not.
fn may_be_pci(device: &Element) -> bool {
    let kind = device
        .child("address")
        .and_then(|address| address.attr("type"));
    kind.is_none_or(|kind| kind == "pci")
}
