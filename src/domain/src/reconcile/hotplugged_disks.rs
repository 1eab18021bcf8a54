//! Hotplugged disks to attach and to detach.

use std::fmt;

use kubevirt_api::vmi::Vmi;

use super::device_change::{DeviceChange, DiskAttachment, volume_name};
use super::io_threads::LiveIoThreads;
use super::live_domain::{LiveDomain, TypedDevice};
use super::pci_addresses;
use crate::convert::volume_paths;
use crate::disk_backend::DiskBackend;
use crate::libvirt_spec::{Alias, Disk};

/// The directory below which virt-handler mounts hotplugged volumes.
const HOTPLUG_DISKS_DIR: &str = "/var/run/kubevirt/hotplug-disks/";
const CDROM: &str = "cdrom";
const SCSI: &str = "scsi";

/// A hotplugged volume of the VMI that is not attached, although its image may be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldVolume {
    /// The volume.
    pub volume: String,
    /// Why it is not attached.
    pub reason: HoldReason,
}

/// Why a volume is not attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldReason {
    /// A disk that a hook added has this target, such as `vdb`.
    HookDisk(String),
    /// Another volume of the VMI is attached at the target.
    OtherVolume {
        /// The target.
        target: String,
        /// The volume that is attached there.
        volume: String,
    },
    /// The running VM has no SCSI controller, since it was started without hotplug (`disableHotplug`).
    NoScsiController,
}

impl fmt::Display for HeldVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let volume = &self.volume;
        match &self.reason {
            HoldReason::HookDisk(target) => write!(
                f,
                "A disk added by a hook uses the target of volume {volume} ({target}), so the volume is not attached; \
                 change the hook to use a target far from those of volumes, such as vdz"
            ),
            HoldReason::OtherVolume {
                target,
                volume: other,
            } => write!(
                f,
                "Volume {volume} is not attached, since volume {other} has its target ({target}); it is attached as \
                 soon as the target is free"
            ),
            HoldReason::NoScsiController => write!(
                f,
                "Volume {volume} is not attached: the running VM has no SCSI controller, since it was started with \
                 disableHotplug; restart the VM without it"
            ),
        }
    }
}

/// The changes of disks, detaches first, and the volumes that cannot be attached now.
pub(super) fn changes(
    vmi: &Vmi,
    wanted: &[Disk],
    live: &LiveDomain,
    mut threads: LiveIoThreads,
) -> (Vec<DeviceChange>, Vec<HeldVolume>) {
    let disks = live.disks();
    let is_detached = |disk: &TypedDevice<'_, Disk>| {
        is_hotpluggable(&disk.spec) && counterpart(&disk.spec, wanted).is_none()
    };
    let detached = disks.iter().filter(|disk| is_detached(disk)).map(|disk| {
        let device = disk.device(&disk.spec.target.device, overlay(vmi, &disk.spec));
        DeviceChange::DetachDisk(device)
    });
    let mut changes: Vec<_> = detached.collect();
    let mut held = Vec::new();
    let missing = wanted.iter().filter(|disk| {
        is_hotpluggable(disk)
            && !disks.iter().any(|live| {
                counterpart(&live.spec, wanted).is_some_and(|other| std::ptr::eq(other, *disk))
            })
    });
    for disk in missing {
        let occupant = disks
            .iter()
            .find(|live| live.spec.target.device == disk.target.device && !is_detached(live));
        let reason = match occupant {
            Some(occupant) => Some(occupied(occupant, &disk.target.device)),
            None if disk.target.bus == SCSI && !live.has_scsi_controller() => {
                Some(HoldReason::NoScsiController)
            }
            None => None,
        };
        match reason {
            Some(reason) => held.push(HeldVolume {
                volume: volume_name(disk).to_owned(),
                reason,
            }),
            None => changes.push(attachment(vmi, disk, &mut threads)),
        }
    }
    (changes, held)
}

fn attachment(vmi: &Vmi, disk: &Disk, threads: &mut LiveIoThreads) -> DeviceChange {
    let mut disk = disk.clone();
    pci_addresses::keep_requested_of_disk(vmi, &mut disk);
    let new_io_threads = threads.assign(&mut disk);
    DeviceChange::AttachDisk(Box::new(DiskAttachment {
        disk,
        new_io_threads,
    }))
}

fn occupied(occupant: &TypedDevice<'_, Disk>, target: &str) -> HoldReason {
    let target = target.to_owned();
    if !is_hotplugged(&occupant.spec) {
        return HoldReason::HookDisk(target);
    }
    let volume = volume_name(&occupant.spec).to_owned();
    HoldReason::OtherVolume { target, volume }
}

/// The wanted disk that a disk of the running domain is. A hotplugged disk is the one with its alias or, since hooks
/// may change aliases, with its image, if the bus is the same. Other disks and drives are also recognised by their
/// target.
pub(super) fn counterpart<'w>(live: &Disk, wanted: &'w [Disk]) -> Option<&'w Disk> {
    let is_on_same_bus =
        |disk: &&Disk| disk.target.bus.is_empty() || disk.target.bus == live.target.bus;
    let by_alias = wanted
        .iter()
        .filter(is_on_same_bus)
        .find(|disk| is_same_alias(disk.alias.as_ref(), live.alias.as_ref()));
    by_alias.or_else(|| {
        if is_hotpluggable(live) && live.device != CDROM {
            let image = data_path(live);
            return wanted
                .iter()
                .filter(is_on_same_bus)
                .find(|disk| data_path(disk) == image);
        }
        let is_drive = |disk: &Disk| disk.device == CDROM;
        wanted.iter().find(|disk| {
            disk.target.device == live.target.device
                && (!is_hotpluggable(disk) || (is_drive(live) && is_drive(disk)))
        })
    })
}

fn is_same_alias(alias: Option<&Alias>, other: Option<&Alias>) -> bool {
    alias.is_some_and(|alias| !alias.name.is_empty() && Some(alias) == other)
}

/// The file or device with the disk's data; empty for a drive without a medium.
pub fn data_path(disk: &Disk) -> String {
    DiskBackend::from_disk(disk).map_or_else(String::new, |backend| backend.path)
}

/// Whether the disk can be attached and detached: it is a hotplugged volume on a bus that supports hotplug.
pub(super) fn is_hotpluggable(disk: &Disk) -> bool {
    is_hotplugged(disk) && matches!(disk.target.bus.as_str(), "virtio" | SCSI | "")
}

/// Whether the disk's data is a hotplugged volume.
pub(super) fn is_hotplugged(disk: &Disk) -> bool {
    DiskBackend::from_disk(disk).is_some_and(|backend| backend.path.starts_with(HOTPLUG_DISKS_DIR))
}

/// The image that tracks the disk's changed blocks, if it is the one that the launcher makes for the volume. A hook may
/// have given the disk another one, which is not the launcher's to remove.
fn overlay(vmi: &Vmi, disk: &Disk) -> Option<String> {
    DiskBackend::from_data_store(disk)?;
    let volume = volume_name(disk);
    let made = volume_paths::changed_blocks(vmi, volume);
    (!volume.contains('/') && disk.source.file == made).then_some(made)
}
