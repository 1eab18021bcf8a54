//! Sets the sources of disks: the files and devices of their volumes.

use kubevirt_api::vmi::{self, Volume};

use crate::convert::conversion_inputs::Context;
use crate::convert::conversion_purpose::Purpose;
use crate::convert::error::ConvertError;
use crate::convert::file_name_of_path::file_name;
use crate::convert::storage::claim_sources::{
    claim_source, set_claim_source, set_hotplugged_source, track_changes,
};
use crate::convert::storage::volume_paths;
use crate::libvirt_spec::{
    BackingStore, BackingStoreFormat, Disk, DiskDriver, DiskSource, ReadOnly,
};

const PRIVATE_DIR: &str = "/var/run/kubevirt-private";
const EMPTY_DISKS_DIR: &str = "/var/run/libvirt/empty-disks";

/// Sets the disk's source. Returns false if the disk is not part of the domain yet: its volume is not attached to the
/// pod, or is attached only after a migration.
pub(crate) fn set_source(
    context: &Context<'_>,
    source: &vmi::Disk,
    disk: &mut Disk,
) -> Result<bool, ConvertError> {
    let Some(index) = context.volumes.get(source.name.as_str()).copied() else {
        if source.cdrom.is_none() {
            return Err(ConvertError::invalid(format!(
                "no matching volume with name {} found",
                source.name
            )));
        }
        set_empty_drive(disk);
        return Ok(true);
    };
    let volume = &context.vmi.spec.volumes[index];
    let status = context.volume_status.get(source.name.as_str());
    match status.filter(|status| status.hotplug_volume.is_some()) {
        Some(_) if context.purpose == Purpose::MigrationTarget => Ok(false),
        Some(status) => {
            set_hotplugged_source(context, volume, disk)?;
            let is_ready = matches!(status.phase.as_str(), "MountedToPod" | "Ready");
            Ok(is_ready || !context.has_permanent_volumes)
        }
        None => {
            set_permanent_source(context, volume, index, disk)?;
            Ok(status.is_some() || !context.has_permanent_volumes)
        }
    }
}

fn set_empty_drive(disk: &mut Disk) {
    disk.kind = "block".into();
    disk.driver_mut().kind = "raw".into();
    disk.driver_mut().discard = "unmap".into();
}

fn set_permanent_source(
    context: &Context<'_>,
    volume: &Volume,
    index: usize,
    disk: &mut Disk,
) -> Result<(), ConvertError> {
    let name = &volume.name;
    match volume {
        Volume {
            container_disk: Some(_),
            ..
        } => set_container_disk(context, name, index, disk),
        Volume {
            cloud_init_no_cloud: Some(_),
            ..
        } => set_cloud_init(context, "noCloud", disk),
        Volume {
            cloud_init_config_drive: Some(_),
            ..
        } => set_cloud_init(context, "configdrive", disk),
        Volume {
            sysprep: Some(_), ..
        } => set_image(
            format!("{PRIVATE_DIR}/sysprep-disks/{name}.iso"),
            "raw",
            disk,
        ),
        Volume {
            host_disk: Some(host),
            ..
        } => {
            set_image(host_disk_path(name, &host.path)?, "raw", disk);
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
            set_claim_source(context, name, disk);
        }
        Volume {
            ephemeral: Some(_), ..
        } => set_ephemeral(context, name, disk),
        Volume {
            empty_disk: Some(_),
            ..
        } => set_overlay(format!("{EMPTY_DISKS_DIR}/{name}.qcow2"), disk),
        Volume {
            config_map: Some(_),
            ..
        } => set_image(
            format!("{PRIVATE_DIR}/config-map-disks/{name}.iso"),
            "raw",
            disk,
        ),
        Volume {
            secret: Some(_), ..
        } => set_image(
            format!("{PRIVATE_DIR}/secret-disks/{name}.iso"),
            "raw",
            disk,
        ),
        Volume {
            downward_api: Some(_),
            ..
        } => set_image(
            format!("{PRIVATE_DIR}/downwardapi-disks/{name}.iso"),
            "raw",
            disk,
        ),
        Volume {
            service_account: Some(_),
            ..
        } => {
            set_image(
                format!("{PRIVATE_DIR}/service-account-disk/service-account.iso"),
                "raw",
                disk,
            );
        }
        Volume {
            downward_metrics: Some(_),
            ..
        } => set_downward_metrics(context, disk),
        _ => {
            return Err(ConvertError::invalid(format!(
                "disk {name} references an unsupported source"
            )));
        }
    }
    Ok(())
}

fn set_image(path: String, format: &str, disk: &mut Disk) {
    disk.kind = "file".into();
    disk.source.file = path;
    disk.driver_mut().kind = format.into();
}

/// Sets a qcow2 image that the launcher creates. Discarding frees its blocks.
fn set_overlay(path: String, disk: &mut Disk) {
    set_image(path, "qcow2", disk);
    disk.driver_mut().discard = "unmap".into();
}

fn ephemeral_image(context: &Context<'_>, name: &str) -> String {
    format!(
        "{}/disk-data/{name}/disk.qcow2",
        context.host.ephemeral_disk_dir
    )
}

fn set_container_disk(context: &Context<'_>, name: &str, index: usize, disk: &mut Disk) {
    set_overlay(ephemeral_image(context, name), disk);
    let known_format = context
        .options
        .disks_info
        .get(name)
        .map(|info| &info.format)
        .filter(|format| !format.is_empty());
    disk.backing_store = Some(BackingStore {
        kind: "file".into(),
        format: Some(BackingStoreFormat {
            kind: known_format
                .unwrap_or(&context.host.container_disk_format)
                .clone(),
        }),
        source: Some(DiskSource {
            file: format!("{}/disk_{index}.img", context.host.container_disk_dir),
            ..DiskSource::default()
        }),
    });
}

fn set_cloud_init(context: &Context<'_>, data_source: &str, disk: &mut Disk) {
    let directory = format!("{}/cloud-init-data", context.host.ephemeral_disk_dir);
    let (namespace, name) = (context.vmi.namespace(), context.vmi.name());
    set_image(
        format!("{directory}/{namespace}/{name}/{data_source}.iso"),
        "raw",
        disk,
    );
}

/// The path of a hostDisk's image in the pod, with the same file name as on the node.
fn host_disk_path(name: &str, path: &str) -> Result<String, ConvertError> {
    let file = file_name(path).ok_or_else(|| ConvertError::Value {
        field: format!("spec.volumes[{name}].hostDisk.path"),
        value: path.to_owned(),
        allowed: "the path of an image",
    })?;
    Ok(format!("{}/{file}", volume_paths::directory(name)))
}

/// Sets an overlay on a claim, so that the claim is never written.
fn set_ephemeral(context: &Context<'_>, name: &str, disk: &mut Disk) {
    set_overlay(ephemeral_image(context, name), disk);
    let (kind, source) = claim_source(context, name);
    disk.backing_store = Some(BackingStore {
        kind: kind.into(),
        format: Some(BackingStoreFormat { kind: "raw".into() }),
        source: Some(source),
    });
}

fn set_downward_metrics(context: &Context<'_>, disk: &mut Disk) {
    disk.read_only = Some(ReadOnly::default());
    disk.driver = Some(DiskDriver {
        name: "qemu".into(),
        ..DiskDriver::default()
    });
    disk.model = context.virtio_model.into();
    set_image(
        format!("{PRIVATE_DIR}/downwardapi-disks/vhostmd0"),
        "raw",
        disk,
    );
}
