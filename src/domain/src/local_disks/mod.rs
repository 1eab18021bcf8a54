//! Which files must be in place before a VM starts, as plain data for whoever makes them.
//!
//! Paths are read off the domain, where conversion put them; nothing here spells a place.

mod boot_files;
mod config;
mod expansion;
mod volumes;

use std::collections::HashMap;

use crate::cloud_init::DataSource;
use crate::spec::{Disk, DomainSpec};
use crate::vmi::Vmi;

pub use config::{ConfigIso, ConfigKind};
pub use expansion::{Expansion, Growth, expansions, growths};

/// Images are made of whole mebibytes.
const MIB: u64 = 1024 * 1024;

/// One thing to put in place or to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskPreparation {
    /// A qcow2 image without content.
    EmptyDisk {
        /// The volume.
        volume: String,
        /// Where the image goes.
        path: String,
        /// Its virtual size: whole mebibytes, at least one.
        bytes: u64,
    },
    /// A qcow2 image that keeps what the guest writes, over one that is only read.
    Overlay {
        /// The volume.
        volume: String,
        /// Where the overlay goes.
        path: String,
        /// The image below it; must be there.
        backing: String,
        /// The backing image's format, `qcow2` or `raw`.
        format: String,
    },
    /// The cloud-init image. It is written after define, but the directory must be there before,
    /// since the disk's cache mode depends on the file system.
    CloudInitIso {
        /// The volume.
        volume: String,
        /// Where the image goes.
        path: String,
        /// Which kind of image.
        data_source: DataSource,
    },
    /// An image made of configuration that is mounted into the pod.
    ConfigIso(ConfigIso),
    /// A raw image on the node or on a claim. virt-handler makes the one that is missing; where no
    /// virt-handler is, somebody else must.
    HostDisk {
        /// The volume.
        volume: String,
        /// Where the image is.
        path: String,
        /// Its size should it have to be made: whole mebibytes.
        bytes: u64,
    },
    /// A qcow2 image that holds nothing but the bitmaps of changed blocks; the data stay in a raw image.
    ChangedBlocks {
        /// The volume.
        volume: String,
        /// Where the qcow2 image goes.
        path: String,
        /// The raw image or the device; must be there.
        data: String,
        /// The data are on a block device.
        is_block: bool,
    },
    /// The disk through which virt-handler tells the guest how its node is doing.
    DownwardMetrics {
        /// The volume.
        volume: String,
        /// Where the disk goes.
        path: String,
    },
    /// Ignition data for Fedora CoreOS guests, handed over by the firmware.
    Ignition {
        /// Where the file goes.
        path: String,
        /// What it holds.
        content: String,
    },
    /// Kernel and initrd; they come with the container disks and must be there.
    KernelBoot {
        /// Paths of the kernel and the initrd, those that are used.
        artifacts: Vec<String>,
    },
}

/// Why there is no telling what must be in place.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LocalDiskError {
    /// No size was given.
    #[error("volume {volume}: {kind} needs a capacity")]
    NoCapacity {
        /// The volume.
        volume: String,
        /// `an emptyDisk`, `a hostDisk`.
        kind: &'static str,
    },
    /// Less than a mebibyte.
    #[error("the size for volume {volume} is too low: {bytes} bytes, {kind} needs at least {MIB}")]
    TooSmall {
        /// The volume.
        volume: String,
        /// What was asked for, in bytes.
        bytes: i64,
        /// `an emptyDisk`, `a hostDisk`.
        kind: &'static str,
    },
    /// Nothing says what the sysprep disk is to hold.
    #[error("volume {volume}: a sysprep volume needs a configMap or a secret with the answer file")]
    NoSysprepSource {
        /// The volume.
        volume: String,
    },
    /// Its disk is not in the domain as a file.
    #[error("volume {volume}: its disk has no {what} in the domain")]
    NoPath {
        /// The volume.
        volume: String,
        /// `file` or `backing image`.
        what: &'static str,
    },
    /// A path that a name in the VMI made leave its directory.
    #[error(
        "volume {volume}: {path} is not an absolute path without \"..\"; names must not contain slashes or dots alone"
    )]
    Escapes {
        /// The volume, or `kernel boot`.
        volume: String,
        /// The path.
        path: String,
    },
}

/// Everything that must be in place for this VMI and the domain converted from it (as
/// [`crate::convert`] gives it, before hooks). Volumes that no disk shows need nothing.
///
/// # Errors
/// [`LocalDiskError`] naming the volume.
pub fn local_disks(vmi: &Vmi, spec: &DomainSpec) -> Result<Vec<DiskPreparation>, LocalDiskError> {
    let mut preparations = Vec::new();
    let disks = by_volume(spec);
    for volume in &vmi.spec.volumes {
        if let Some(disk) = disks.get(volume.name.as_str()) {
            preparations.extend(volumes::preparation(vmi, volume, disk)?);
            preparations.extend(volumes::changed_blocks(vmi, volume, disk)?);
        }
    }
    preparations.extend(boot_files::kernel_boot(vmi, spec)?);
    preparations.extend(boot_files::ignition(vmi, spec)?);
    Ok(preparations)
}

/// The disk that shows a volume has its name.
fn by_volume(spec: &DomainSpec) -> HashMap<&str, &Disk> {
    let mut disks = HashMap::new();
    for disk in &spec.devices.disks {
        if let Some(alias) = &disk.alias {
            disks.entry(alias.name.as_str()).or_insert(disk);
        }
    }
    disks
}

/// Volume names are part of paths, and a VMI that no cluster has checked may hold any name.
fn contained(volume: &str, path: &str) -> Result<String, LocalDiskError> {
    let escapes =
        !path.starts_with('/') || path.contains('\0') || path.split('/').any(|part| part == "..");
    if escapes {
        return Err(LocalDiskError::Escapes {
            volume: volume.to_owned(),
            path: path.to_owned(),
        });
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests;
