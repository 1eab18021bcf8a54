//! What one volume needs.

use super::{DiskPreparation, LocalDiskError, MIB, config, contained};
use crate::cloud_init::DataSource;
use crate::spec::Disk;
use crate::vmi::{ChangedBlockTracking, HostDisk, Quantity, Vmi, Volume, VolumeStatus};

pub(super) fn preparation(
    vmi: &Vmi,
    volume: &Volume,
    disk: &Disk,
) -> Result<Option<DiskPreparation>, LocalDiskError> {
    let name = || volume.name.clone();
    let iso = |data_source| {
        Ok(Some(DiskPreparation::CloudInitIso {
            volume: name(),
            path: file(volume, disk)?,
            data_source,
        }))
    };
    if let Some(empty) = &volume.empty_disk {
        return Ok(Some(DiskPreparation::EmptyDisk {
            volume: name(),
            path: file(volume, disk)?,
            bytes: bytes(volume, "an emptyDisk", empty.capacity.as_ref())?,
        }));
    }
    if volume.cloud_init_no_cloud.is_some() {
        return iso(DataSource::NoCloud);
    }
    if volume.cloud_init_config_drive.is_some() {
        return iso(DataSource::ConfigDrive);
    }
    if volume.container_disk.is_some() || volume.ephemeral.is_some() {
        return overlay(volume, disk).map(Some);
    }
    if volume.downward_metrics.is_some() {
        return Ok(Some(DiskPreparation::DownwardMetrics {
            volume: name(),
            path: file(volume, disk)?,
        }));
    }
    if let Some(host_disk) = creatable(vmi, volume) {
        return self::host_disk(volume, host_disk, disk).map(Some);
    }
    Ok(config::iso(volume, disk)?.map(DiskPreparation::ConfigIso))
}

/// Rounded down to whole mebibytes, as KubeVirt does.
fn bytes(
    volume: &Volume,
    kind: &'static str,
    capacity: Option<&Quantity>,
) -> Result<u64, LocalDiskError> {
    let volume = volume.name.clone();
    let Some(capacity) = capacity else {
        return Err(LocalDiskError::NoCapacity { volume, kind });
    };
    match capacity.bytes() {
        Ok(bytes) if bytes >= MIB => Ok(bytes - bytes % MIB),
        Ok(_) | Err(_) => Err(LocalDiskError::TooSmall {
            volume,
            bytes: capacity.value(),
            kind,
        }),
    }
}

fn overlay(volume: &Volume, disk: &Disk) -> Result<DiskPreparation, LocalDiskError> {
    let no_path = || no_path(volume, "backing image");
    let store = disk.backing_store.as_ref().ok_or_else(no_path)?;
    let source = store.source.as_ref().ok_or_else(no_path)?;
    let backing = [&source.file, &source.dev]
        .into_iter()
        .find(|path| !path.is_empty())
        .ok_or_else(no_path)?;
    Ok(DiskPreparation::Overlay {
        volume: volume.name.clone(),
        path: file(volume, disk)?,
        backing: contained(&volume.name, backing)?,
        format: store
            .format
            .as_ref()
            .map_or_else(|| "raw".to_owned(), |format| format.kind.clone()),
    })
}

/// An image that may have to be made. A hotplugged one is not here before it was.
fn creatable<'a>(vmi: &Vmi, volume: &'a Volume) -> Option<&'a HostDisk> {
    let host_disk = volume.host_disk.as_ref()?;
    let is_hotplugged = status(vmi, volume).is_some_and(|status| status.hotplug_volume.is_some());
    (host_disk.kind == "DiskOrCreate" && !is_hotplugged).then_some(host_disk)
}

fn host_disk(
    volume: &Volume,
    host_disk: &HostDisk,
    disk: &Disk,
) -> Result<DiskPreparation, LocalDiskError> {
    let path = match data_of(disk) {
        Some((data, false)) => contained(&volume.name, data)?,
        _ => file(volume, disk)?,
    };
    Ok(DiskPreparation::HostDisk {
        volume: volume.name.clone(),
        path,
        bytes: bytes(volume, "a hostDisk", host_disk.capacity.as_ref())?,
    })
}

/// The image of the bitmaps, which is made once in a VM's life: when tracking is switched on, or when
/// a volume is plugged into a VM that tracks.
pub(super) fn changed_blocks(
    vmi: &Vmi,
    volume: &Volume,
    disk: &Disk,
) -> Result<Option<DiskPreparation>, LocalDiskError> {
    let Some((data, is_block)) = data_of(disk) else {
        return Ok(None);
    };
    let tracking = vmi.status.changed_block_tracking.as_ref();
    let is_plugged = status(vmi, volume)
        .is_some_and(|status| status.hotplug_volume.is_some() && status.phase == "MountedToPod");
    let is_new = match tracking.map(|tracking| tracking.state.as_str()) {
        Some("Initializing") => true,
        _ => tracking.is_some_and(ChangedBlockTracking::is_on) && is_plugged,
    };
    if !is_new {
        return Ok(None);
    }
    Ok(Some(DiskPreparation::ChangedBlocks {
        volume: volume.name.clone(),
        path: file(volume, disk)?,
        data: contained(&volume.name, data)?,
        is_block,
    }))
}

/// Where the data are that an image only describes, and whether that is a device.
fn data_of(disk: &Disk) -> Option<(&str, bool)> {
    let source = disk.source.data_store.as_ref()?.source.as_ref()?;
    match (source.file.as_str(), source.dev.as_str()) {
        ("", "") => None,
        ("", device) => Some((device, true)),
        (file, _) => Some((file, false)),
    }
}

fn status<'a>(vmi: &'a Vmi, volume: &Volume) -> Option<&'a VolumeStatus> {
    let mut statuses = vmi.status.volume_status.iter();
    statuses.find(|status| status.name == volume.name)
}

pub(super) fn file(volume: &Volume, disk: &Disk) -> Result<String, LocalDiskError> {
    match disk.source.file.as_str() {
        "" => Err(no_path(volume, "file")),
        path => contained(&volume.name, path),
    }
}

fn no_path(volume: &Volume, what: &'static str) -> LocalDiskError {
    LocalDiskError::NoPath {
        volume: volume.name.clone(),
        what,
    }
}
