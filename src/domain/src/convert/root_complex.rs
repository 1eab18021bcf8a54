//! PCI devices on the root complex, in place of root ports: for guests that cannot do with bridges.

use super::{Context, ConvertError};
use crate::spec::{Address, Controller, Devices, DomainSpec};

/// Slots of the bus that something else has: VGA, ich9 sound, ich9 SATA.
const TAKEN: [u32; 3] = [0x01, 0x1b, 0x1f];
const FIRST: u32 = 0x02;
const SLOTS: u32 = 0x20;

pub(super) fn place(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if !context.vmi.is_on_root_complex() {
        return Ok(());
    }
    let mut slots = (FIRST..SLOTS).filter(|slot| !TAKEN.contains(slot));
    for address in places(&mut spec.devices) {
        if !may_be_placed(address.as_ref()) {
            continue;
        }
        let slot = slots
            .next()
            .ok_or_else(|| ConvertError::refused("No space left on the root PCI bus."))?;
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

/// An address that was asked for is kept, and so is one on another kind of bus.
fn may_be_placed(address: Option<&Address>) -> bool {
    address.is_none_or(|address| {
        matches!(address.kind.as_str(), "" | "pci") && address.domain.is_empty()
    })
}

/// Every PCI device, in the order in which slots are given.
fn places(devices: &mut Devices) -> Vec<&mut Option<Address>> {
    let mut places = Vec::new();
    places.extend(
        devices
            .interfaces
            .iter_mut()
            .map(|device| &mut device.address),
    );
    let host_devices = devices.host_devices.iter_mut();
    places.extend(
        host_devices
            .filter(|device| device.kind == "pci")
            .map(|device| &mut device.address),
    );
    let controllers = devices.controllers.iter_mut();
    places.extend(
        controllers
            .filter(|controller| !is_bus_of_its_own(controller))
            .map(|controller| &mut controller.address),
    );
    let disks = devices.disks.iter_mut();
    places.extend(
        disks
            .filter(|disk| disk.target.bus == "virtio")
            .map(|disk| &mut disk.address),
    );
    let inputs = devices.inputs.iter_mut();
    places.extend(
        inputs
            .filter(|input| input.bus == "virtio")
            .map(|input| &mut input.address),
    );
    places.extend(
        devices
            .watchdogs
            .iter_mut()
            .map(|device| &mut device.address),
    );
    places.extend(devices.rng.iter_mut().map(|device| &mut device.address));
    places.extend(
        devices
            .ballooning
            .iter_mut()
            .map(|device| &mut device.address),
    );
    places
}

fn is_bus_of_its_own(controller: &Controller) -> bool {
    matches!(
        controller.model.as_str(),
        "pci-root" | "pcie-root" | "pcie-expander-bus"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_an_address_keeps_it() {
        let kind = |kind: &str, domain: &str| Address {
            kind: kind.into(),
            domain: domain.into(),
            ..Address::default()
        };
        assert!(may_be_placed(None));
        assert!(may_be_placed(Some(&kind("pci", ""))));
        assert!(!may_be_placed(Some(&kind("pci", "0x0000"))));
        assert!(!may_be_placed(Some(&kind("drive", ""))));
    }
}
