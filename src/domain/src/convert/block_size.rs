//! Block sizes that the guest sees: fixed, or those of the volume.

use super::device_names::DeviceNames;
use super::{Context, ConvertError, disks, volumes};
use crate::host::{BlockSizes, HostFacts};
use crate::options::Options;
use crate::prepare::Backend;
use crate::spec::{self, BlockIo};
use crate::vmi::{Disk, FeatureState, Vmi};

/// A volume whose block sizes a disk takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedVolume {
    /// The image or the device; the key in [`HostFacts::block_sizes`].
    pub path: String,
    /// A block device, not a file.
    pub is_block: bool,
}

/// The volumes whose block sizes must be among the facts before [`super::convert`].
///
/// # Errors
/// As [`super::convert`], for a disk that cannot be.
pub fn matched_volumes(
    vmi: &Vmi,
    options: &Options,
    host: &HostFacts,
) -> Result<Vec<MatchedVolume>, ConvertError> {
    let context = Context::new(vmi, options, host)?;
    let mut names = DeviceNames::new(vmi);
    let mut matched = Vec::new();
    for (place, source) in context.devices().disks.iter().enumerate() {
        if !matches_volume(source) {
            continue;
        }
        let mut disk = disks::convert(&context, source, &mut names, place)?;
        volumes::fill(&context, source, &mut disk)?;
        matched.extend(Backend::of(&disk).map(|backend| MatchedVolume {
            path: backend.path,
            is_block: backend.is_block,
        }));
    }
    Ok(matched)
}

fn matches_volume(disk: &Disk) -> bool {
    disk.block_size.as_ref().is_some_and(|size| {
        size.custom.is_none()
            && size
                .match_volume
                .as_ref()
                .is_some_and(FeatureState::is_enabled)
    })
}

pub(super) fn of(
    context: &Context<'_>,
    source: &Disk,
    disk: &spec::Disk,
) -> Result<Option<BlockIo>, ConvertError> {
    if matches_volume(source) {
        return of_volume(context, disk).map(Some).map_err(|error| {
            ConvertError::refused(format!(
                "failed to configure disk with block size detection enabled: {error}"
            ))
        });
    }
    let custom = source
        .block_size
        .as_ref()
        .and_then(|size| size.custom.as_ref());
    Ok(custom.map(|custom| BlockIo {
        logical_block_size: custom.logical,
        physical_block_size: custom.physical,
        discard_granularity: custom.discard_granularity,
    }))
}

fn of_volume(context: &Context<'_>, disk: &spec::Disk) -> Result<BlockIo, String> {
    let backend = Backend::of(disk).ok_or("disk is neither a block device nor a file")?;
    let sizes = context
        .host
        .block_sizes
        .get(&backend.path)
        .ok_or_else(|| problem(context, &backend.path))?;
    settle(sizes).ok_or_else(|| format!("block sizes returned by device {} are 0", backend.path))
}

fn problem(context: &Context<'_>, path: &str) -> String {
    let problem = context.host.block_size_problems.get(path);
    problem.cloned().unwrap_or_else(|| {
        format!("nobody has asked {path} for its block sizes; they belong into the host facts")
    })
}

/// A device that knows only one size has it for both; one whose discard granularity makes no sense
/// discards by physical blocks.
fn settle(sizes: &BlockSizes) -> Option<BlockIo> {
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn odd_devices_are_set_right() {
        let settled = |logical, physical, discard_granularity| {
            settle(&BlockSizes {
                logical,
                physical,
                discard_granularity,
            })
            .map(|size| {
                let discard = size.discard_granularity.unwrap();
                (size.logical_block_size, size.physical_block_size, discard)
            })
        };
        assert_eq!(settled(512, 4096, 65536), Some((512, 4096, 65536)));
        assert_eq!(settled(512, 4096, 0), Some((512, 4096, 0)));
        assert_eq!(settled(4096, 4096, 512), Some((4096, 4096, 4096)));
        assert_eq!(settled(0, 4096, 4096), Some((4096, 4096, 4096)));
        assert_eq!(settled(512, 0, 512), Some((512, 512, 512)));
        assert_eq!(settled(0, 0, 512), None);
    }
}
