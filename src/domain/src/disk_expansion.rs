//! Disks that can be expanded because their claims have grown, before the VM starts and while it runs.

#[cfg(test)]
pub(crate) mod tests;

use kubevirt_api::vmi::Vmi;

use crate::disk_backend::DiskBackend;
use crate::host_facts::HostFacts;
use crate::libvirt_spec::{Disk, DomainSpec};

/// The size of images is a multiple of a mebibyte.
const MIB: u64 = 1024 * 1024;

/// A disk image that may be smaller than its claim, and what its new size depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageExpansion {
    /// The volume.
    pub volume: String,
    /// Path of the image.
    pub path: String,
    /// The image's format, `raw` or `qcow2`.
    pub format: String,
    /// The file with the data, whose size and free space are measured.
    pub data: String,
    /// The claim's capacity or request, whichever is smaller, in bytes.
    pub capacity: u64,
    /// The fraction that the file system itself needs, from 0 to 1.
    pub overhead: f64,
}

impl ImageExpansion {
    /// The new size of the disk in bytes: the capacity, or the file system's `usable` bytes if they are fewer, minus
    /// the overhead, rounded down to mebibytes. `None` if this is zero.
    pub fn size(&self, usable: Option<u64>) -> Option<u64> {
        let space = usable.map_or(self.capacity, |usable| usable.min(self.capacity));
        // Floating point as in KubeVirt, because the guest sees the result.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let size = ((1.0 - self.overhead) * space as f64) as u64;
        let size = size - size % MIB;
        (size > 0).then_some(size)
    }
}

/// The disks with image files on claims whose size is known.
pub fn image_expansions(vmi: &Vmi, host: &HostFacts, spec: &DomainSpec) -> Vec<ImageExpansion> {
    expandable_disks(host, spec)
        .filter_map(|disk| expansion(vmi, disk))
        .collect()
}

/// A disk of a running VM on a claim, which may be larger than the disk.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveExpansion {
    /// An image file.
    File(ImageExpansion),
    /// A block device, which the storage provider resizes.
    Device {
        /// The volume.
        volume: String,
        /// The disk's source: the device, or the image that tracks its changed blocks.
        path: String,
        /// The device.
        device: String,
    },
}

impl LiveExpansion {
    /// The volume.
    pub fn volume(&self) -> &str {
        match self {
            LiveExpansion::File(image) => &image.volume,
            LiveExpansion::Device { volume, .. } => volume,
        }
    }

    /// The path of the disk's source.
    pub fn path(&self) -> &str {
        match self {
            LiveExpansion::File(image) => &image.path,
            LiveExpansion::Device { path, .. } => path,
        }
    }
}

/// The disks on claims, all of which may have to be expanded while the VM runs.
pub fn live_expansions(vmi: &Vmi, host: &HostFacts, spec: &DomainSpec) -> Vec<LiveExpansion> {
    let live_expansion = |disk| {
        expansion(vmi, disk)
            .map(LiveExpansion::File)
            .or_else(|| device_expansion(vmi, disk))
    };
    expandable_disks(host, spec)
        .filter_map(live_expansion)
        .collect()
}

/// The disks that the cluster's version of KubeVirt expands, if their claims grow.
fn expandable_disks<'a>(host: &HostFacts, spec: &'a DomainSpec) -> impl Iterator<Item = &'a Disk> {
    let is_by_option = host.behaviour().expands_disks_by_option;
    let disks = spec.devices.disks.iter();
    disks.filter(move |disk| !is_by_option || disk.expand_disks_enabled == Some(true))
}

fn device_expansion(vmi: &Vmi, disk: &Disk) -> Option<LiveExpansion> {
    let device = DiskBackend::from_disk(disk).filter(|backend| backend.is_block)?;
    let sources = [&disk.source.file, &disk.source.dev];
    Some(LiveExpansion::Device {
        volume: claim_volume(vmi, disk)?,
        path: sources.into_iter().find(|path| !path.is_empty())?.clone(),
        device: device.path,
    })
}

/// The volume of a disk on a claim.
fn claim_volume(vmi: &Vmi, disk: &Disk) -> Option<String> {
    let volume = &disk.alias.as_ref()?.name;
    let mut statuses = vmi.status.volume_status.iter();
    let status = statuses.find(|status| status.name == *volume)?;
    status.persistent_volume_claim_info.as_ref()?;
    Some(volume.clone())
}

fn expansion(vmi: &Vmi, disk: &Disk) -> Option<ImageExpansion> {
    let volume = claim_volume(vmi, disk)?;
    let data = DiskBackend::from_disk(disk).filter(|backend| !backend.is_block)?;
    let overhead: f64 = disk.filesystem_overhead.as_ref()?.parse().ok()?;
    Some(ImageExpansion {
        volume,
        path: disk.source.file.clone(),
        format: disk.driver.as_ref()?.kind.clone(),
        data: data.path,
        capacity: u64::try_from(disk.capacity?).ok()?,
        overhead: Some(overhead).filter(|overhead| (0.0..=1.0).contains(overhead))?,
    })
}
