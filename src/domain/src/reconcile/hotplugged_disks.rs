//! Hotplugged disks to attach and to detach.

use std::collections::HashSet;

use super::device_change::DeviceChange;
use super::live_domain::TypedDevice;
use crate::disk_backend::DiskBackend;
use crate::libvirt_spec::Disk;

/// The directory below which virt-handler mounts hotplugged volumes.
const HOTPLUG_DISKS_DIR: &str = "/var/run/kubevirt/hotplug-disks/";

pub(super) fn changes(wanted: &[Disk], live: &[TypedDevice<'_, Disk>]) -> Vec<DeviceChange> {
    let target = |disk: &Disk| disk.target.device.clone();
    let wanted_targets: HashSet<_> = wanted.iter().map(target).collect();
    let live_targets: HashSet<_> = live.iter().map(|disk| target(&disk.spec)).collect();
    let detached = live.iter().filter(|disk| {
        is_hotpluggable(&disk.spec) && !wanted_targets.contains(&disk.spec.target.device)
    });
    let attached = wanted
        .iter()
        .filter(|disk| is_hotpluggable(disk) && !live_targets.contains(&disk.target.device));
    detached
        .map(|disk| {
            let device = disk.device(&disk.spec.target.device, overlay(&disk.spec));
            DeviceChange::DetachDisk(device)
        })
        .chain(attached.map(|disk| DeviceChange::AttachDisk(Box::new(disk.clone()))))
        .collect()
}

/// The hotplugged volumes whose target name is used by a disk that a hook added, and the target name. These volumes are
/// not attached, because disks are matched by their targets.
pub(super) fn occupied_targets(
    wanted: &[Disk],
    live: &[TypedDevice<'_, Disk>],
) -> Vec<(String, String)> {
    let name = |disk: &Disk| disk.alias.as_ref().map(|alias| alias.name.clone());
    let is_occupied = |disk: &&Disk| {
        live.iter().any(|other| {
            other.spec.target.device == disk.target.device
                && !is_hotplugged(&other.spec)
                && name(&other.spec) != name(disk)
        })
    };
    let wanted = wanted.iter().filter(|disk| is_hotpluggable(disk));
    wanted
        .filter(is_occupied)
        .map(|disk| (name(disk).unwrap_or_default(), disk.target.device.clone()))
        .collect()
}

/// The file or device with the disk's data; empty for a drive without a medium.
pub fn data_path(disk: &Disk) -> String {
    DiskBackend::from_disk(disk).map_or_else(String::new, |backend| backend.path)
}

/// Whether the disk can be attached and detached: it is a hotplugged volume on a bus that supports hotplug.
pub(super) fn is_hotpluggable(disk: &Disk) -> bool {
    is_hotplugged(disk) && matches!(disk.target.bus.as_str(), "virtio" | "scsi" | "")
}

/// Whether the disk's data is a hotplugged volume.
pub(super) fn is_hotplugged(disk: &Disk) -> bool {
    DiskBackend::from_disk(disk).is_some_and(|backend| backend.path.starts_with(HOTPLUG_DISKS_DIR))
}

/// The image that tracks the disk's changed blocks.
fn overlay(disk: &Disk) -> Option<String> {
    DiskBackend::from_data_store(disk)?;
    Some(disk.source.file.clone()).filter(|path| !path.is_empty())
}
