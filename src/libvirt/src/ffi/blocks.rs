//! The disks of a domain.

use virt_sys as sys;

use super::call::{c_string, check};
use super::domain_handle::RealDomain;
use crate::blocks::{BlockInfo, BlockSize, Blocks};
use crate::error::Result;

impl Blocks for RealDomain {
    fn block_info(&self, disk: &str) -> Result<BlockInfo> {
        let disk = c_string("disk", disk)?;
        let mut info = sys::virDomainBlockInfo {
            capacity: 0,
            allocation: 0,
            physical: 0,
        };
        // SAFETY: the domain is valid, the disk NUL-terminated, and the result has a place to go.
        check(unsafe {
            sys::virDomainGetBlockInfo(self.as_ptr(), disk.as_ptr(), &raw mut info, 0)
        })?;
        Ok(BlockInfo {
            capacity: info.capacity,
            allocation: info.allocation,
            physical: info.physical,
        })
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
