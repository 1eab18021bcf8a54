//! The sources of disks on claims, with a data store behind an image if changed blocks are tracked.

use kubevirt_api::vmi::{self, Volume};

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::convert::storage::volume_paths;
use crate::libvirt_spec::{DataStore, DataStoreFormat, Disk, DiskSource};

/// Sets the source of a disk on a claim that is attached at boot.
pub(crate) fn set_claim_source(context: &Context<'_>, name: &str, disk: &mut Disk) {
    let (kind, source) = claim_source(context, name);
    disk.kind = kind.into();
    // The reservations belong to the disk and are kept.
    disk.source = DiskSource {
        reservations: disk.source.reservations.take(),
        ..source
    };
    set_raw_driver(context, name, disk);
    track_changes(context, name, disk);
}

fn set_raw_driver(context: &Context<'_>, name: &str, disk: &mut Disk) {
    disk.driver_mut().kind = "raw".into();
    if context.discards(name) {
        disk.driver_mut().discard = "unmap".into();
    }
}

/// The type and source of a disk on a claim.
pub(crate) fn claim_source(context: &Context<'_>, name: &str) -> (&'static str, DiskSource) {
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

/// Sets the source of a disk on a hotplugged claim.
pub(crate) fn set_hotplugged_source(
    context: &Context<'_>,
    volume: &Volume,
    disk: &mut Disk,
) -> Result<(), ConvertError> {
    let name = &volume.name;
    let is_claim = volume.host_disk.is_some()
        || volume.persistent_volume_claim.is_some()
        || volume.data_volume.is_some();
    if !is_claim {
        return Err(ConvertError::invalid(format!(
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
    set_raw_driver(context, name, disk);
    track_changes(context, name, disk);
    Ok(())
}

/// If changed blocks are tracked, makes the disk a qcow2 image with the bitmaps whose data store is the volume.
pub(crate) fn track_changes(context: &Context<'_>, name: &str, disk: &mut Disk) {
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
