//! The required files of one volume: its image, and the image that tracks its changed blocks.

use kubevirt_api::vmi::{ChangedBlockTracking, HostDisk, Quantity, Vmi, Volume, VolumeStatus};

use crate::cloud_init::DataSource;
use crate::convert::{Purpose, volume_paths};
use crate::disk_backend::DiskBackend;
use crate::host_facts::HostFacts;
use crate::libvirt_spec::Disk;
use crate::required_files::error::{MIB, RequiredFileError};
use crate::required_files::required_file::RequiredFile;
use crate::required_files::{config_iso, path_check};

/// The file that must exist for the volume, if any, other than the image that tracks its changed blocks.
pub(crate) fn required_file(
    purpose: Purpose,
    vmi: &Vmi,
    volume: &Volume,
    disk: &Disk,
) -> Result<Option<RequiredFile>, RequiredFileError> {
    let name = || volume.name.clone();
    let iso = |data_source| {
        Ok(Some(RequiredFile::CloudInitIso {
            volume: name(),
            path: path_check::image_path(volume, disk)?,
            data_source,
            min_bytes: min_image_bytes(purpose, vmi, volume)?,
        }))
    };
    if let Some(empty) = &volume.empty_disk {
        return Ok(Some(RequiredFile::EmptyDisk {
            volume: name(),
            path: path_check::image_path(volume, disk)?,
            bytes: capacity_bytes(volume, "an emptyDisk", empty.capacity.as_ref())?,
        }));
    }
    if volume.cloud_init_no_cloud.is_some() {
        return iso(DataSource::NoCloud);
    }
    if volume.cloud_init_config_drive.is_some() {
        return iso(DataSource::ConfigDrive);
    }
    if volume.container_disk.is_some() || volume.ephemeral.is_some() {
        return overlay_file(volume, disk).map(Some);
    }
    if volume.downward_metrics.is_some() {
        return Ok(Some(RequiredFile::DownwardMetrics {
            volume: name(),
            path: path_check::image_path(volume, disk)?,
        }));
    }
    if let Some(host_disk) = host_disk_to_create(vmi, volume) {
        return host_disk_file(volume, host_disk, disk).map(Some);
    }
    if !config_iso::is_configuration(volume) {
        return Ok(None);
    }
    let min_bytes = min_image_bytes(purpose, vmi, volume)?;
    Ok(config_iso::config_iso(volume, disk, min_bytes)?.map(RequiredFile::ConfigIso))
}

/// The minimum size of a generated image. On a migration target, the image must not be smaller than the source's, whose
/// size the source's virt-handler reports in the volume's status.
fn min_image_bytes(purpose: Purpose, vmi: &Vmi, volume: &Volume) -> Result<u64, RequiredFileError> {
    if purpose == Purpose::Boot {
        return Ok(0);
    }
    let status = status(vmi, volume).ok_or_else(|| RequiredFileError::NoStatus {
        volume: volume.name.clone(),
    })?;
    Ok(u64::try_from(status.size.unwrap_or_default()).unwrap_or_default())
}

/// The capacity in bytes, rounded down to mebibytes as in KubeVirt.
fn capacity_bytes(
    volume: &Volume,
    kind: &'static str,
    capacity: Option<&Quantity>,
) -> Result<u64, RequiredFileError> {
    let volume = volume.name.clone();
    let Some(capacity) = capacity else {
        return Err(RequiredFileError::NoCapacity { volume, kind });
    };
    match capacity.bytes() {
        Ok(bytes) if bytes >= MIB => Ok(bytes - bytes % MIB),
        Ok(_) | Err(_) => Err(RequiredFileError::TooSmall {
            volume,
            bytes: capacity.value(),
            kind,
        }),
    }
}

fn overlay_file(volume: &Volume, disk: &Disk) -> Result<RequiredFile, RequiredFileError> {
    let missing = || path_check::missing_path(volume, "backing image");
    let store = disk.backing_store.as_ref().ok_or_else(missing)?;
    let source = store.source.as_ref().ok_or_else(missing)?;
    let backing = [&source.file, &source.dev]
        .into_iter()
        .find(|path| !path.is_empty())
        .ok_or_else(missing)?;
    Ok(RequiredFile::Overlay {
        volume: volume.name.clone(),
        path: path_check::image_path(volume, disk)?,
        backing: path_check::check_path(&volume.name, backing)?,
        format: store
            .format
            .as_ref()
            .map_or_else(|| "raw".to_owned(), |format| format.kind.clone()),
    })
}

/// The volume's hostDisk, if its image may have to be created. The image of a hotplugged volume exists already.
fn host_disk_to_create<'a>(vmi: &Vmi, volume: &'a Volume) -> Option<&'a HostDisk> {
    let host_disk = volume.host_disk.as_ref()?;
    let is_hotplugged = status(vmi, volume).is_some_and(|status| status.hotplug_volume.is_some());
    (host_disk.kind == "DiskOrCreate" && !is_hotplugged).then_some(host_disk)
}

fn host_disk_file(
    volume: &Volume,
    host_disk: &HostDisk,
    disk: &Disk,
) -> Result<RequiredFile, RequiredFileError> {
    let path = match DiskBackend::from_data_store(disk) {
        Some(data) if !data.is_block => path_check::check_path(&volume.name, &data.path)?,
        _ => path_check::image_path(volume, disk)?,
    };
    Ok(RequiredFile::HostDisk {
        volume: volume.name.clone(),
        path,
        bytes: capacity_bytes(volume, "a hostDisk", host_disk.capacity.as_ref())?,
    })
}

/// The image with the bitmaps of changed blocks, if it has to be created: when tracking is switched on, when a volume
/// is hotplugged while tracking is on, or when a migration target has its own backend storage.
pub(crate) fn changed_blocks(
    purpose: Purpose,
    vmi: &Vmi,
    volume: &Volume,
    disk: &Disk,
) -> Result<Option<RequiredFile>, RequiredFileError> {
    let Some(data) = DiskBackend::from_data_store(disk) else {
        return Ok(None);
    };
    let tracking = vmi.status.changed_block_tracking.as_ref();
    let is_hotplugged = status(vmi, volume)
        .is_some_and(|status| status.hotplug_volume.is_some() && status.phase == "MountedToPod");
    let is_on = tracking.is_some_and(ChangedBlockTracking::is_on);
    let must_create = match tracking.map(|tracking| tracking.state.as_str()) {
        _ if purpose == Purpose::MigrationTarget => is_on && has_new_backend_storage(vmi),
        Some("Initializing") => true,
        _ => is_on && is_hotplugged,
    };
    if !must_create {
        return Ok(None);
    }
    Ok(Some(RequiredFile::ChangedBlocks {
        volume: volume.name.clone(),
        path: path_check::image_path(volume, disk)?,
        data: path_check::check_path(&volume.name, &data.path)?,
        is_block: data.is_block,
    }))
}

/// The image with the bitmaps of a hotplugged volume, on a migration target that has its own backend storage. The
/// converted domain of a target has no hotplugged disks, because they arrive with the source's domain.
pub(crate) fn hotplugged_changed_blocks(
    vmi: &Vmi,
    volume: &Volume,
    facts: &HostFacts,
) -> Result<Option<RequiredFile>, RequiredFileError> {
    let tracking = vmi.status.changed_block_tracking.as_ref();
    let must_create =
        tracking.is_some_and(ChangedBlockTracking::is_on) && has_new_backend_storage(vmi);
    let status = status(vmi, volume).filter(|status| {
        status.hotplug_volume.is_some() && matches!(status.phase.as_str(), "MountedToPod" | "Ready")
    });
    let Some(status) = status.filter(|_| must_create && is_trackable(volume)) else {
        return Ok(None);
    };
    let is_block = facts.is_block(&volume.name, Some(status));
    let data = match is_block {
        true => volume_paths::block(&volume.name, true),
        false => volume_paths::file(&volume.name, true),
    };
    let image = volume_paths::changed_blocks(vmi, &volume.name);
    Ok(Some(RequiredFile::ChangedBlocks {
        volume: volume.name.clone(),
        path: path_check::check_path(&volume.name, &image)?,
        data: path_check::check_path(&volume.name, &data)?,
        is_block,
    }))
}

/// Whether changed blocks can be tracked for a volume of this kind.
fn is_trackable(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some()
        || volume.data_volume.is_some()
        || volume.host_disk.is_some()
}

/// Whether the migration target stores its persistent state in another claim than the source.
fn has_new_backend_storage(vmi: &Vmi) -> bool {
    let state = vmi.status.migration_state.as_ref();
    state.is_some_and(|state| {
        let source = &state.source_persistent_state_claim;
        let target = &state.target_persistent_state_claim;
        !source.is_empty() && !target.is_empty() && source != target
    })
}

fn status<'a>(vmi: &'a Vmi, volume: &Volume) -> Option<&'a VolumeStatus> {
    vmi.volume_status(&volume.name)
}
