//! Places PCI devices on the root complex instead of root ports, for guests that cannot use bridges.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Address, Devices, DomainSpec, is_pci_root_bus};

/// The first slot that a device can get.
const FIRST_SLOT: u32 = 0x02;
/// The number of slots of a bus.
const SLOT_COUNT: u32 = 0x20;

pub(crate) fn place(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if !context.vmi.is_on_root_complex() || !context.architecture.can_place_on_pcie() {
        return Ok(());
    }
    let occupied = context.architecture.occupied_root_slots();
    let mut slots = (FIRST_SLOT..SLOT_COUNT).filter(|slot| !occupied.contains(slot));
    for address in addresses(&mut spec.devices) {
        if !needs_pci_address(address.as_ref()) {
            continue;
        }
        let slot = slots
            .next()
            .ok_or_else(|| ConvertError::invalid("No space left on the root PCI bus."))?;
        *address = Some(Address {
            kind: "pci".into(),
            domain: "0x0000".into(),
            bus: "0x00".into(),
            slot: format!("{slot:#04x}"),
            function: "0x0".into(),
            ..Address::default()
        });
    }
    Ok(())
}

/// Whether a device needs an address. Addresses from the VMI and addresses on another kind of bus are kept.
fn needs_pci_address(address: Option<&Address>) -> bool {
    address.is_none_or(|address| {
        matches!(address.kind.as_str(), "" | "pci") && address.domain.is_empty()
    })
}

/// The addresses of all PCI devices, in the order in which they get slots.
fn addresses(devices: &mut Devices) -> Vec<&mut Option<Address>> {
    let mut addresses = Vec::new();
    addresses.extend(
        devices
            .interfaces
            .iter_mut()
            .map(|device| &mut device.address),
    );
    let host_devices = devices.host_devices.iter_mut();
    addresses.extend(
        host_devices
            .filter(|device| device.kind == "pci")
            .map(|device| &mut device.address),
    );
    let controllers = devices.controllers.iter_mut();
    addresses.extend(
        controllers
            .filter(|controller| !is_pci_root_bus(&controller.model))
            .map(|controller| &mut controller.address),
    );
    let disks = devices.disks.iter_mut();
    addresses.extend(
        disks
            .filter(|disk| disk.target.bus == "virtio")
            .map(|disk| &mut disk.address),
    );
    let inputs = devices.inputs.iter_mut();
    addresses.extend(
        inputs
            .filter(|input| input.bus == "virtio")
            .map(|input| &mut input.address),
    );
    addresses.extend(
        devices
            .watchdogs
            .iter_mut()
            .map(|device| &mut device.address),
    );
    addresses.extend(devices.rng.iter_mut().map(|device| &mut device.address));
    addresses.extend(
        devices
            .ballooning
            .iter_mut()
            .map(|device| &mut device.address),
    );
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_addresses_are_kept() {
        let address = |kind: &str, domain: &str| Address {
            kind: kind.into(),
            domain: domain.into(),
            ..Address::default()
        };
        assert!(needs_pci_address(None));
        assert!(needs_pci_address(Some(&address("pci", ""))));
        assert!(!needs_pci_address(Some(&address("pci", "0x0000"))));
        assert!(!needs_pci_address(Some(&address("drive", ""))));
    }
}
