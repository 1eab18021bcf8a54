//! PCI addresses of devices that are attached.

use kubevirt_api::vmi::Vmi;

use crate::libvirt_spec::{Address, Disk, Interface};

/// Leaves a disk the address that the VMI asks for.
pub(super) fn keep_requested_of_disk(vmi: &Vmi, disk: &mut Disk) {
    let name = disk.alias.as_ref().map_or("", |alias| alias.name.as_str());
    let mut disks = vmi.spec.domain.devices.disks.iter();
    let requested = disks
        .find(|disk| disk.name == name)
        .and_then(|disk| disk.disk.as_ref());
    keep_requested(
        &mut disk.address,
        requested.map_or("", |target| target.pci_address.as_str()),
    );
}

/// Leaves an interface the address that the VMI asks for.
pub(super) fn keep_requested_of_interface(vmi: &Vmi, name: &str, interface: &mut Interface) {
    keep_requested(&mut interface.address, requested_by_interface(vmi, name));
}

/// The address that the VMI asks for, for its interface with this name; empty for none.
pub(super) fn requested_by_interface<'a>(vmi: &'a Vmi, name: &str) -> &'a str {
    let mut interfaces = vmi.spec.domain.devices.interfaces.iter();
    let interface = interfaces.find(|interface| interface.name == name);
    interface.map_or("", |interface| interface.pci_address.as_str())
}

/// Removes a PCI address that the VMI does not ask for. The conversion places devices by those that the VMI has now
/// (root complex, NUMA nodes), so that the address may be that of another device of the running domain, or on a bus that
/// the domain lacks. libvirt chooses a free one.
pub(super) fn keep_requested(address: &mut Option<Address>, requested: &str) {
    if requested.is_empty()
        && address
            .as_ref()
            .is_some_and(|address| address.kind == "pci")
    {
        *address = None;
    }
}
