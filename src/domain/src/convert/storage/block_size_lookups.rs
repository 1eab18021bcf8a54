//! Lists volumes whose block sizes must be looked up before the conversion.

use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

use crate::convert::conversion_inputs::Context;
use crate::convert::conversion_purpose::Purpose;
use crate::convert::error::ConvertError;
use crate::convert::storage::disk_target_names::DeviceNames;
use crate::convert::storage::{block_size, disk_sources, disks};
use crate::disk_backend::DiskBackend;
use crate::host_facts::HostFacts;

/// A volume whose block sizes the guest sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSizeLookup {
    /// Path of the image or the device; the key in [`HostFacts::block_sizes`].
    pub path: String,
    /// Whether the volume is a block device, and not a file.
    pub is_block: bool,
}

/// The volumes whose block sizes must be in the host facts before [`crate::convert::convert`].
///
/// # Errors
/// [`ConvertError`] if a disk cannot be converted.
pub fn block_size_lookups(
    vmi: &Vmi,
    options: &Options,
    host: &HostFacts,
) -> Result<Vec<BlockSizeLookup>, ConvertError> {
    let context = Context::new(vmi, options, host, Purpose::Boot)?;
    let mut names = DeviceNames::new(vmi);
    let mut lookups = Vec::new();
    for (index, source) in context.devices().disks.iter().enumerate() {
        if !block_size::matches_volume(source) {
            continue;
        }
        let mut disk = disks::convert(&context, source, &mut names, index)?;
        if !disk_sources::set_source(&context, source, &mut disk)? {
            continue;
        }
        lookups.extend(
            DiskBackend::from_disk(&disk).map(|backend| BlockSizeLookup {
                path: backend.path,
                is_block: backend.is_block,
            }),
        );
    }
    Ok(lookups)
}
