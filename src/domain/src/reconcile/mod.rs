//! The changes that make a running domain match its VMI. Pure: [`plan`] determines the changes, the launcher applies
//! them.
//!
//! ```text
//! VMI ─ convert ─▶ wanted domain ─┐
//!                                 ├─ plan ─▶ detach, attach, change media (disks); attach, detach, link (interfaces)
//! libvirt's live XML ─────────────┘
//! ```
//!
//! The rules are KubeVirt's: disks match by their target alone, interfaces by their alias. A device of the running
//! domain is sent back to libvirt as libvirt described it, so that elements of hooks, letter case and unknown elements
//! stay.

mod cdrom_media;
mod device_change;
mod failed_attach_leftovers;
mod hotplugged_disks;
mod interface_changes;
mod live_domain;
mod sriov_attachments;
mod unapplied_settings;
mod virtio_mem;

use kubevirt_api::vmi::Vmi;

use crate::libvirt_spec::DomainSpec;

pub use device_change::{DeviceChange, LiveDevice, MediumChange};
pub use failed_attach_leftovers::{AttachLeftovers, BlockNode, DeviceParts, QomMember};
pub use hotplugged_disks::data_path;
pub use live_domain::{LiveDomain, device_xml};
pub use sriov_attachments::{HostDeviceAttachment, sriov_attachments, sriov_interfaces};
pub use unapplied_settings::RunningSettings;
pub use virtio_mem::{MemoryChange, MemoryChangeError, memory_change};

/// The changes from the running domain to the wanted one, in the order in which they are applied. `wanted` is the
/// conversion of `vmi`.
pub fn plan(vmi: &Vmi, wanted: &DomainSpec, live: &LiveDomain) -> Vec<DeviceChange> {
    let disks = live.disks();
    let mut changes = hotplugged_disks::changes(&wanted.devices.disks, &disks);
    changes.extend(cdrom_media::changes(&wanted.devices.disks, &disks));
    // virt-handler does not change interfaces until the VMI is running.
    if vmi.value()["status"]["phase"] == "Running" {
        changes.extend(interface_changes::changes(
            vmi,
            &wanted.devices.interfaces,
            &live.interfaces(),
        ));
    }
    changes
}

/// The hotplugged volumes that [`plan`] does not attach because a disk that a hook added has their target, and the
/// target (such as `vdb`).
pub fn occupied_targets(wanted: &DomainSpec, live: &LiveDomain) -> Vec<(String, String)> {
    hotplugged_disks::occupied_targets(&wanted.devices.disks, &live.disks())
}

#[cfg(test)]
mod tests;
