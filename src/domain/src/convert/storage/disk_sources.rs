//! The sources of disks: files and devices of their volumes.

use kubevirt_api::vmi::{self, Volume};

use crate::convert::conversion_inputs::Context;
use crate::convert::conversion_purpose::Purpose;
use crate::convert::error::ConvertError;
use crate::convert::file_name::file_name;
use crate::convert::storage::volume_paths;
use crate::libvirt_spec::{
    BackingStore, BackingStoreFormat, DataStore, DataStoreFormat, Disk, DiskDriver, DiskSource,
    ReadOnly,
};

const PRIVATE: &str = "/var/run/kubevirt-private";
const EMPTY_DISKS: &str = "/var/run/libvirt/empty-disks";

/// Sets the disk's source. False if the volume is hotplugged and not attached yet.
pub(crate) fn fill(
    context: &Context<'_>,
    source: &vmi::Disk,
    disk: &mut Disk,
) -> Result<bool, ConvertError> {
    let Some(place) = context.volumes.get(source.name.as_str()).copied() else {
        if source.cdrom.is_none() {
            return Err(ConvertError::refused(format!(
                "no matching volume with name {} found",
                source.name
            )));
        }
        empty_drive(disk);
        return Ok(true);
    };
    let volume = &context.vmi.spec.volumes[place];
    let status = context.volume_status.get(source.name.as_str());
    match status.filter(|status| status.hotplug_volume.is_some()) {
        Some(_) if context.purpose == Purpose::MigrationTarget => Ok(false),
        Some(status) => {
            hotplugged(context, volume, disk)?;
            let is_ready = matches!(status.phase.as_str(), "MountedToPod" | "Ready");
            Ok(is_ready || !context.has_permanent_volumes)
        }
        None => {
            permanent(context, volume, place, disk)?;
            Ok(status.is_some() || !context.has_permanent_volumes)
        }
    }
}

fn empty_drive(disk: &mut Disk) {
    disk.kind = "block".into();
    disk.driver_mut().kind = "raw".into();
    disk.driver_mut().discard = "unmap".into();
}

fn permanent(
    context: &Context<'_>,
    volume: &Volume,
    place: usize,
    disk: &mut Disk,
) -> Result<(), ConvertError> {
    let name = &volume.name;
    match volume {
        Volume {
            container_disk: Some(_),
            ..
        } => container_disk(context, name, place, disk),
        Volume {
            cloud_init_no_cloud: Some(_),
            ..
        } => cloud_init(context, "noCloud", disk),
        Volume {
            cloud_init_config_drive: Some(_),
            ..
        } => cloud_init(context, "configdrive", disk),
        Volume {
            sysprep: Some(_), ..
        } => file(format!("{PRIVATE}/sysprep-disks/{name}.iso"), "raw", disk),
        Volume {
            host_disk: Some(host),
            ..
        } => {
            file(host_disk(name, &host.path)?, "raw", disk);
            track_changes(context, name, disk);
        }
        Volume {
            persistent_volume_claim: Some(_),
            ..
        }
        | Volume {
            data_volume: Some(_),
            ..
        } => {
            claim(context, name, disk);
        }
        Volume {
            ephemeral: Some(_), ..
        } => ephemeral(context, name, disk),
        Volume {
            empty_disk: Some(_),
            ..
        } => overlay(format!("{EMPTY_DISKS}/{name}.qcow2"), disk),
        Volume {
            config_map: Some(_),
            ..
        } => file(
            format!("{PRIVATE}/config-map-disks/{name}.iso"),
            "raw",
            disk,
        ),
        Volume {
            secret: Some(_), ..
        } => file(format!("{PRIVATE}/secret-disks/{name}.iso"), "raw", disk),
        Volume {
            downward_api: Some(_),
            ..
        } => file(
            format!("{PRIVATE}/downwardapi-disks/{name}.iso"),
            "raw",
            disk,
        ),
        Volume {
            service_account: Some(_),
            ..
        } => {
            file(
                format!("{PRIVATE}/service-account-disk/service-account.iso"),
                "raw",
                disk,
            );
        }
        Volume {
            downward_metrics: Some(_),
            ..
        } => downward_metrics(context, disk),
        _ => {
            return Err(ConvertError::refused(format!(
                "disk {name} references an unsupported source"
            )));
        }
    }
    Ok(())
}

fn file(path: String, format: &str, disk: &mut Disk) {
    disk.kind = "file".into();
    disk.source.file = path;
    disk.driver_mut().kind = format.into();
}

/// An image that the launcher creates. Discarding frees its blocks.
fn overlay(path: String, disk: &mut Disk) {
    file(path, "qcow2", disk);
    disk.driver_mut().discard = "unmap".into();
}

fn ephemeral_image(context: &Context<'_>, name: &str) -> String {
    format!(
        "{}/disk-data/{name}/disk.qcow2",
        context.host.ephemeral_disk_dir
    )
}

fn container_disk(context: &Context<'_>, name: &str, place: usize, disk: &mut Disk) {
    overlay(ephemeral_image(context, name), disk);
    let recorded = context
        .options
        .disks_info
        .get(name)
        .map(|info| &info.format)
        .filter(|format| !format.is_empty());
    disk.backing_store = Some(BackingStore {
        kind: "file".into(),
        format: Some(BackingStoreFormat {
            kind: recorded
                .unwrap_or(&context.host.container_disk_format)
                .clone(),
        }),
        source: Some(DiskSource {
            file: format!("{}/disk_{place}.img", context.host.container_disk_dir),
            ..DiskSource::default()
        }),
    });
}

fn cloud_init(context: &Context<'_>, data_source: &str, disk: &mut Disk) {
    let directory = format!("{}/cloud-init-data", context.host.ephemeral_disk_dir);
    let (namespace, name) = (context.vmi.namespace(), context.vmi.name());
    file(
        format!("{directory}/{namespace}/{name}/{data_source}.iso"),
        "raw",
        disk,
    );
}

/// The image has the same file name in the pod as on the node.
fn host_disk(name: &str, path: &str) -> Result<String, ConvertError> {
    let file = file_name(path).ok_or_else(|| ConvertError::Value {
        field: format!("spec.volumes[{name}].hostDisk.path"),
        value: path.to_owned(),
        allowed: "the path of an image",
    })?;
    Ok(format!("{}/{file}", volume_paths::directory(name)))
}

fn claim(context: &Context<'_>, name: &str, disk: &mut Disk) {
    let source = claim_source(context, name);
    disk.kind = source.0.into();
    // Keeps what belongs to the disk, such as reservations.
    disk.source = DiskSource {
        reservations: disk.source.reservations.take(),
        ..source.1
    };
    raw_image(context, name, disk);
    track_changes(context, name, disk);
}

fn raw_image(context: &Context<'_>, name: &str, disk: &mut Disk) {
    disk.driver_mut().kind = "raw".into();
    if context.discards(name) {
        disk.driver_mut().discard = "unmap".into();
    }
}

fn claim_source(context: &Context<'_>, name: &str) -> (&'static str, DiskSource) {
    if context.is_block(name) {
        (
            "block",
            DiskSource {
                dev: volume_paths::block(name, false),
                name: name.into(),
                ..DiskSource::default()
            },
        )
    } else {
        (
            "file",
            DiskSource {
                file: volume_paths::file(name, false),
                ..DiskSource::default()
            },
        )
    }
}

/// An overlay on a claim, which is never written.
fn ephemeral(context: &Context<'_>, name: &str, disk: &mut Disk) {
    overlay(ephemeral_image(context, name), disk);
    let (kind, source) = claim_source(context, name);
    disk.backing_store = Some(BackingStore {
        kind: kind.into(),
        format: Some(BackingStoreFormat { kind: "raw".into() }),
        source: Some(source),
    });
}

fn downward_metrics(context: &Context<'_>, disk: &mut Disk) {
    disk.read_only = Some(ReadOnly::default());
    disk.driver = Some(DiskDriver {
        name: "qemu".into(),
        ..DiskDriver::default()
    });
    disk.model = context.virtio_model.into();
    file(format!("{PRIVATE}/downwardapi-disks/vhostmd0"), "raw", disk);
}

fn hotplugged(context: &Context<'_>, volume: &Volume, disk: &mut Disk) -> Result<(), ConvertError> {
    let name = &volume.name;
    let is_claim = volume.host_disk.is_some()
        || volume.persistent_volume_claim.is_some()
        || volume.data_volume.is_some();
    if !is_claim {
        return Err(ConvertError::refused(format!(
            "hotplug disk {name} references an unsupported source"
        )));
    }
    if context.is_block(name) {
        disk.kind = "block".into();
        disk.source.dev = volume_paths::block(name, true);
    } else {
        disk.kind = "file".into();
        disk.source.file = volume_paths::file(name, true);
    }
    raw_image(context, name, disk);
    track_changes(context, name, disk);
    Ok(())
}

/// With changed block tracking, a qcow2 image holds the bitmaps and the volume stays its data store.
fn track_changes(context: &Context<'_>, name: &str, disk: &mut Disk) {
    let tracking = context.vmi.status.changed_block_tracking.as_ref();
    if !tracking.is_some_and(vmi::ChangedBlockTracking::is_on) {
        return;
    }
    let data = DiskSource {
        dev: std::mem::take(&mut disk.source.dev),
        file: std::mem::take(&mut disk.source.file),
        ..DiskSource::default()
    };
    disk.source.data_store = Some(Box::new(DataStore {
        kind: std::mem::replace(&mut disk.kind, "file".into()),
        format: Some(DataStoreFormat { kind: "raw".into() }),
        source: Some(data),
    }));
    disk.source.file = volume_paths::changed_blocks(context.vmi, name);
    disk.driver_mut().kind = "qcow2".into();
}
