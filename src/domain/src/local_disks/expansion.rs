//! Claims that have grown: by how much the guest's disk may follow, before it starts and while it runs.

use super::MIB;
use crate::prepare::Backend;
use crate::spec::{Disk, DomainSpec};
use crate::vmi::Vmi;

/// A disk image that may be smaller than its claim allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    /// The volume.
    pub volume: String,
    /// The image to be resized.
    pub path: String,
    /// Its format, `raw` or `qcow2`.
    pub format: String,
    /// The file with the data, which tells how large the disk is and what room there is.
    pub data: String,
    /// What the claim holds or was asked to, whichever is less, in bytes.
    pub capacity: u64,
    /// The part that the file system keeps to itself, from 0 to 1.
    pub overhead: f64,
}

impl Expansion {
    /// The size that the disk can have: what the claim has, or the file system's `usable` bytes where
    /// they are known and less, without the overhead; whole mebibytes. `None` when that is nothing.
    pub fn size(&self, usable: Option<u64>) -> Option<u64> {
        let room = usable.map_or(self.capacity, |usable| usable.min(self.capacity));
        // KubeVirt counts in floating point too, and the guest sees the result.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let size = ((1.0 - self.overhead) * room as f64) as u64;
        let size = size - size % MIB;
        (size > 0).then_some(size)
    }
}

/// The images that may have to grow: files of claims whose size is known.
pub fn expansions(vmi: &Vmi, spec: &DomainSpec) -> Vec<Expansion> {
    let disks = spec.devices.disks.iter();
    disks.filter_map(|disk| expansion(vmi, disk)).collect()
}

/// A disk of a running VM that may be smaller than its claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Growth {
    /// On a file.
    File(Expansion),
    /// On a block device, which grows by itself.
    Device {
        /// The volume.
        volume: String,
        /// What the disk shows: the device, or the image that describes its data.
        path: String,
        /// The device.
        device: String,
    },
}

/// The disks of claims, all of which may have to grow while the VM runs.
pub fn growths(vmi: &Vmi, spec: &DomainSpec) -> Vec<Growth> {
    let disks = spec.devices.disks.iter();
    let growth = |disk| {
        expansion(vmi, disk)
            .map(Growth::File)
            .or_else(|| growing_device(vmi, disk))
    };
    disks.filter_map(growth).collect()
}

fn growing_device(vmi: &Vmi, disk: &Disk) -> Option<Growth> {
    let device = Backend::of(disk).filter(|backend| backend.is_block)?;
    let shown = [&disk.source.file, &disk.source.dev];
    Some(Growth::Device {
        volume: claimed(vmi, disk)?,
        path: shown.into_iter().find(|path| !path.is_empty())?.clone(),
        device: device.path,
    })
}

/// The volume of a disk, if a claim is behind it.
fn claimed(vmi: &Vmi, disk: &Disk) -> Option<String> {
    let volume = &disk.alias.as_ref()?.name;
    let mut statuses = vmi.status.volume_status.iter();
    let status = statuses.find(|status| status.name == *volume)?;
    status.persistent_volume_claim_info.as_ref()?;
    Some(volume.clone())
}

fn expansion(vmi: &Vmi, disk: &Disk) -> Option<Expansion> {
    let volume = claimed(vmi, disk)?;
    let data = Backend::of(disk).filter(|backend| !backend.is_block)?;
    let overhead: f64 = disk.filesystem_overhead.as_ref()?.parse().ok()?;
    Some(Expansion {
        volume,
        path: disk.source.file.clone(),
        format: disk.driver.as_ref()?.kind.clone(),
        data: data.path,
        capacity: u64::try_from(disk.capacity?).ok()?,
        overhead: Some(overhead).filter(|overhead| (0.0..=1.0).contains(overhead))?,
    })
}
