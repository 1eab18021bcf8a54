//! The disks of a domain.

use std::collections::BTreeMap;

use virt_sys as sys;

use super::call::{c_string, check};
use super::domain_handle::RealDomain;
use super::domain_stats;
use crate::disk_sizes::{BlockInfo, BlockSize, Blocks};
use crate::error::Result;

impl Blocks for RealDomain {
    fn block_infos(&self) -> Result<BTreeMap<String, BlockInfo>> {
        let blocks = domain_stats::read_blocks(self)?.into_iter();
        let known = blocks.filter_map(|block| {
            let info = BlockInfo {
                capacity: block.capacity?,
                allocation: block.allocation.unwrap_or_default(),
                physical: block.physical.unwrap_or_default(),
            };
            Some((block.path?, info))
        });
        Ok(known.collect())
    }

    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()> {
        let disk = c_string("disk", disk)?;
        let (bytes, flags) = match to {
            BlockSize::Bytes(bytes) => (bytes, sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES),
            BlockSize::Device => (
                0,
                sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES | sys::VIR_DOMAIN_BLOCK_RESIZE_CAPACITY,
            ),
        };
        // SAFETY: the domain is valid, the disk NUL-terminated.
        check(unsafe { sys::virDomainBlockResize(self.as_ptr(), disk.as_ptr(), bytes, flags) })
            .map(drop)
    }
}
