//! Looks up whether the volumes of persistent volume claims are block devices or images in this pod.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use domain::convert::VolumeModeLookup;
use domain::host_facts::HostFacts;

use super::READ_TIMEOUT;
use crate::blocking::{self, NoAnswer};

/// The facts with the modes that the volumes of persistent volume claims have in this pod.
///
/// # Errors
/// [`NoAnswer`] if the file system hangs.
pub(crate) async fn with_volume_modes(
    mut facts: HostFacts,
    lookups: Vec<VolumeModeLookup>,
) -> Result<HostFacts, NoAnswer> {
    let is_block = |lookup: &VolumeModeLookup| {
        let metadata = fs::metadata(&lookup.block_path);
        metadata.is_ok_and(|metadata| metadata.file_type().is_block_device())
    };
    let is_image = |lookup: &VolumeModeLookup| {
        let metadata = lookup.image_path.as_ref().map(fs::metadata);
        metadata.is_some_and(|metadata| metadata.is_ok_and(|metadata| metadata.is_file()))
    };
    let look_up = move || {
        let (devices, others): (Vec<_>, Vec<_>) = lookups.into_iter().partition(is_block);
        let images = others.into_iter().filter(is_image);
        facts.image_volumes = images.map(|lookup| lookup.volume).collect();
        facts.block_volumes = devices.into_iter().map(|lookup| lookup.volume).collect();
        facts
    };
    blocking::file_call("looking for volumes", READ_TIMEOUT, look_up).await
}
