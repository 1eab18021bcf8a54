//! The disks of a running domain: their sizes and their errors.

use std::collections::BTreeMap;

use crate::error::Result;

/// The disks of a running domain, named by target (`vda`) or by source path.
pub trait Blocks {
    /// The sizes of all disks by source path, in one call. A disk whose size libvirt does not report is omitted.
    fn block_infos(&self) -> Result<BTreeMap<String, BlockInfo>>;

    /// The errors that QEMU reports for disks, by target.
    fn disk_errors(&self) -> Result<BTreeMap<String, DiskFault>>;

    /// Resizes a disk, and notifies the guest.
    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()>;
}

/// Sizes of a disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    /// The size that the guest sees; 0 if libvirt does not know it.
    pub capacity: u64,
    /// The space that is allocated on the host.
    pub allocation: u64,
    /// The size of the image file, or of the block device.
    pub physical: u64,
}

/// The error of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The storage is full.
    NoSpace,
    /// Another error.
    Other,
}

/// The requested size of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// A size in bytes.
    Bytes(u64),
    /// The size of the underlying block device.
    Device,
}
