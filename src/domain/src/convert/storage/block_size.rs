//! Block sizes that the guest sees: fixed sizes, or the sizes of the volume.

use kubevirt_api::vmi::{CustomBlockSize, Disk, FeatureState};

use crate::convert::arch::Architecture;
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::disk_backend::DiskBackend;
use crate::host_facts::BlockSizes;
use crate::kubevirt_version::Behaviour;
use crate::libvirt_spec::{self, BlockIo};

/// Whether the guest sees the block sizes of the disk's volume.
pub(crate) fn matches_volume(disk: &Disk) -> bool {
    disk.block_size.as_ref().is_some_and(|size| {
        size.custom.is_none()
            && size
                .match_volume
                .as_ref()
                .is_some_and(FeatureState::is_enabled)
    })
}

pub(crate) fn block_io(
    context: &Context<'_>,
    source: &Disk,
    disk: &libvirt_spec::Disk,
) -> Result<Option<BlockIo>, ConvertError> {
    if matches_volume(source) {
        return volume_block_io(context, disk).map(Some).map_err(|error| {
            ConvertError::invalid(format!(
                "failed to configure disk with block size detection enabled: {error}"
            ))
        });
    }
    let custom = source
        .block_size
        .as_ref()
        .and_then(|size| size.custom.as_ref());
    custom
        .map(|custom| custom_block_io(context.architecture, context.behaviour(), custom))
        .transpose()
}

fn custom_block_io(
    architecture: &dyn Architecture,
    behaviour: Behaviour,
    custom: &CustomBlockSize,
) -> Result<BlockIo, ConvertError> {
    let (logical, physical) = (custom.logical, custom.physical);
    let max = architecture.max_custom_block_size(behaviour);
    if let Some(max) = max.filter(|max| logical.max(physical) > *max) {
        return Err(ConvertError::invalid(format!(
            "custom block size (logical={logical}, physical={physical}) exceeds the maximum supported size of {max} for \
             architecture {}",
            architecture.name()
        )));
    }
    Ok(BlockIo {
        logical_block_size: logical,
        physical_block_size: physical,
        discard_granularity: custom.discard_granularity,
    })
}

fn volume_block_io(context: &Context<'_>, disk: &libvirt_spec::Disk) -> Result<BlockIo, String> {
    let backend =
        DiskBackend::from_disk(disk).ok_or("disk is neither a block device nor a file")?;
    let sizes = context
        .host
        .block_sizes
        .get(&backend.path)
        .ok_or_else(|| unknown_sizes(context, &backend.path))?;
    guest_sizes(sizes)
        .ok_or_else(|| format!("block sizes returned by device {} are 0", backend.path))
}

/// Why the block sizes are not among the host facts.
fn unknown_sizes(context: &Context<'_>, path: &str) -> String {
    let problem = context.host.block_size_problems.get(path);
    problem.cloned().unwrap_or_else(|| {
        format!("nobody has asked {path} for its block sizes; they belong in the host facts")
    })
}

/// The sizes that the guest sees. A size that the device does not report is replaced by the other one; a discard
/// granularity that is not a multiple of the logical size is replaced by the physical size.
fn guest_sizes(sizes: &BlockSizes) -> Option<BlockIo> {
    let (logical, physical) = match (sizes.logical, sizes.physical) {
        (0, 0) => return None,
        (logical, 0) => (logical, logical),
        (0, physical) => (physical, physical),
        both => both,
    };
    let granularity = match sizes.discard_granularity {
        granularity if granularity % logical == 0 => granularity,
        _ => sizes.physical,
    };
    Some(BlockIo {
        logical_block_size: logical,
        physical_block_size: physical,
        discard_granularity: Some(granularity),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::arch::amd64::Amd64;
    use crate::convert::arch::s390x::S390x;
    use crate::kubevirt_version::KubeVirtVersion;

    #[test]
    fn custom_sizes_are_limited_if_the_architecture_has_a_maximum() {
        let custom = |logical, physical| CustomBlockSize {
            logical,
            physical,
            ..CustomBlockSize::default()
        };
        let is_accepted = |architecture: &dyn Architecture, logical, physical| {
            let behaviour = Behaviour::of(KubeVirtVersion::V1_9);
            custom_block_io(architecture, behaviour, &custom(logical, physical)).is_ok()
        };
        assert!(is_accepted(&Amd64, 512, 65536));
        assert!(is_accepted(&S390x, 4096, 4096));
        assert!(!is_accepted(&S390x, 512, 8192));
        assert!(!is_accepted(&S390x, 8192, 512));
    }

    #[test]
    fn implausible_sizes_are_corrected() {
        let guest = |logical, physical, discard_granularity| {
            guest_sizes(&BlockSizes {
                logical,
                physical,
                discard_granularity,
            })
            .map(|size| {
                let discard = size.discard_granularity.unwrap();
                (size.logical_block_size, size.physical_block_size, discard)
            })
        };
        assert_eq!(guest(512, 4096, 65536), Some((512, 4096, 65536)));
        assert_eq!(guest(512, 4096, 0), Some((512, 4096, 0)));
        assert_eq!(guest(4096, 4096, 512), Some((4096, 4096, 4096)));
        assert_eq!(guest(0, 4096, 4096), Some((4096, 4096, 4096)));
        assert_eq!(guest(512, 0, 512), Some((512, 512, 512)));
        assert_eq!(guest(0, 0, 512), None);
    }
}
