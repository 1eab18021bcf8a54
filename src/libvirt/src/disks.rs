//! The disks of a running domain: their sizes and their errors.

use std::collections::BTreeMap;

use crate::error::Result;

/// The disks of a running domain, named by target (`vda`) or by source path.
pub trait Blocks {
    /// How large all disks are, by their sources' paths: one call, however many disks there are. A disk whose size libvirt
    /// cannot tell now is left out.
    fn block_infos(&self) -> Result<BTreeMap<String, BlockInfo>>;

    /// The disks that QEMU reports an error of, by target.
    fn disk_errors(&self) -> Result<BTreeMap<String, DiskFault>>;

    /// Makes a disk another size, and tells the guest.
    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()>;
}

/// How large a disk is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    /// What the guest sees; 0 when libvirt cannot tell.
    pub capacity: u64,
    /// What is written on the host.
    pub allocation: u64,
    /// What the image takes up, or the size of the device.
    pub physical: u64,
}

/// Why a disk cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// Its storage is full.
    NoSpace,
    /// Another error.
    Other,
}

/// The size that a disk is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// So many bytes.
    Bytes(u64),
    /// As large as the block device that it is.
    Device,
}
