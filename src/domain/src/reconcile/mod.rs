//! The changes that make a running domain match its VMI. Pure: [`plan`] determines the changes, the launcher applies
//! them.
//!
//! ```text
//! VMI ─ convert ─▶ wanted domain ─┐
//!                                 ├─ plan ─▶ detach, attach, change media (disks); attach, detach, link (interfaces)
//! libvirt's live XML ─────────────┘
//! ```
//!
//! Disks match by their volume, interfaces by their alias. (KubeVirt's disks match by their target, so that a volume
//! that replaces another one on the same target is not attached.) A device of the running domain is sent back to
//! libvirt as libvirt described it, so that elements of hooks, letter case and unknown elements stay. A device that is
//! attached refers only to IO threads and controllers that the running domain has, or gets before.

mod cdrom_media;
mod device_change;
mod failed_attach_leftovers;
mod hotplugged_disks;
mod interface_changes;
mod io_threads;
mod live_domain;
mod pci_addresses;
mod sriov_attachments;
mod unapplied_settings;
mod virtio_mem;

use kubevirt_api::vmi::Vmi;

use crate::libvirt_spec::DomainSpec;
use io_threads::LiveIoThreads;

pub use device_change::{DeviceChange, DiskAttachment, LiveDevice, MediumChange};
pub use failed_attach_leftovers::{AttachLeftovers, BlockNode, DeviceParts, QomMember};
pub use hotplugged_disks::{HeldVolume, HoldReason, data_path};
pub use live_domain::{LiveDomain, device_xml};
pub use sriov_attachments::{HostDeviceAttachment, sriov_attachments, sriov_interfaces};
pub use unapplied_settings::RunningSettings;
pub use virtio_mem::{MemoryChange, MemoryChangeError, memory_change};

/// What a sync does with the devices of the running domain.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The changes from the running domain to the wanted one, in the order in which they are applied.
    pub changes: Vec<DeviceChange>,
    /// Hotplugged volumes that cannot be attached now.
    pub held: Vec<HeldVolume>,
}

/// Plans the changes to the `wanted` domain, which is the conversion of `vmi`.
pub fn plan(vmi: &Vmi, wanted: &DomainSpec, live: &LiveDomain) -> Plan {
    let threads = LiveIoThreads::of(vmi, live);
    let (mut changes, held) = hotplugged_disks::changes(vmi, &wanted.devices.disks, live, threads);
    changes.extend(cdrom_media::changes(&wanted.devices.disks, &live.disks()));
    // virt-handler does not change interfaces until the VMI is running.
    if vmi.value()["status"]["phase"] == "Running" {
        changes.extend(interface_changes::changes(
            vmi,
            &wanted.devices.interfaces,
            &live.interfaces(),
        ));
    }
    Plan { changes, held }
}

#[cfg(test)]
mod tests;
