//! Sizes, errors and resizing of a simulated domain's disks.

use std::collections::BTreeMap;

use super::Call;
use super::domain_handle::FakeDomain;
use crate::disk_sizes_and_errors::{BlockInfo, BlockSize, Blocks, DiskFault};
use crate::error::Result;

impl Blocks for FakeDomain {
    fn block_infos(&self) -> Result<BTreeMap<String, BlockInfo>> {
        self.with_domain(Call::BlockInfo, |domain| Ok(domain.blocks.clone()))
    }

    fn disk_errors(&self) -> Result<BTreeMap<String, DiskFault>> {
        self.with_domain(Call::DiskErrors, |domain| {
            domain.must_run()?;
            Ok(domain.disk_errors.clone())
        })
    }

    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()> {
        self.with_domain(Call::ResizeBlock, |domain| {
            domain.must_run()?;
            domain.block(disk).map(|block| {
                block.capacity = match to {
                    BlockSize::Bytes(bytes) => bytes,
                    BlockSize::Device => block.physical,
                };
            })
        })
    }
}
