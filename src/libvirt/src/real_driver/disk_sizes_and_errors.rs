//! Sizes, errors and resizing of a domain's disks.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::ptr;

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, take_string};
use super::domain_handle::RealDomain;
use super::domain_stats;
use crate::disk_sizes_and_errors::{BlockInfo, BlockSize, Blocks, DiskFault};
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

    fn disk_errors(&self) -> Result<BTreeMap<String, DiskFault>> {
        const EMPTY: sys::virDomainDiskError = sys::virDomainDiskError {
            disk: ptr::null_mut(),
            error: sys::VIR_DOMAIN_DISK_ERROR_NONE.cast_signed(),
        };
        // SAFETY: the domain is valid; without an array libvirt only counts the disks.
        let disks =
            check(unsafe { sys::virDomainGetDiskErrors(self.as_ptr(), ptr::null_mut(), 0, 0) })?;
        let mut errors = vec![EMPTY; usize::try_from(disks).unwrap_or_default()];
        // libvirt refuses an empty array.
        if errors.is_empty() {
            return Ok(BTreeMap::new());
        }
        let array_length = c_uint::try_from(errors.len()).unwrap_or_default();
        // SAFETY: the domain is valid, and the array has `array_length` elements.
        let filled = check(unsafe {
            sys::virDomainGetDiskErrors(self.as_ptr(), errors.as_mut_ptr(), array_length, 0)
        })?;
        let filled = usize::try_from(filled).unwrap_or_default();
        let disk_error = |error: sys::virDomainDiskError| -> Result<(String, DiskFault)> {
            // SAFETY: libvirt has set this element; the caller owns the string of its name.
            let target = unsafe { take_string(error.disk) }?;
            let is_full = c_uint::try_from(error.error) == Ok(sys::VIR_DOMAIN_DISK_ERROR_NO_SPACE);
            let kind = match is_full {
                true => DiskFault::NoSpace,
                false => DiskFault::Other,
            };
            Ok((target, kind))
        };
        errors.into_iter().take(filled).map(disk_error).collect()
    }

    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()> {
        let disk = c_string("disk", disk)?;
        let (bytes, flags) = match to {
            BlockSize::Bytes(bytes) => (bytes, sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES),
            // libvirt itself reads the size of the block device.
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
