//! Edits the disks of volumes that are copied to other claims: sets the size to copy, and replaces a block device with
//! a file or a file with a block device.

use std::collections::BTreeMap;

use domain_xml::{Document, Element};
use kubevirt_api::vmi::{BLOCK, ClaimInfo, Vmi, Volume};

use super::copied_disks::is_migrated;
use super::disk_accessors::{attr, disks_mut, volume};
use super::error::MigrationXmlError;
use crate::convert::volume_paths;

const FILESYSTEM: &str = "Filesystem";

pub(super) fn edit(
    document: &mut Document,
    vmi: &Vmi,
    sizes: &BTreeMap<String, u64>,
) -> Result<(), MigrationXmlError> {
    for disk in disks_mut(document) {
        let volume = volume(disk);
        if !is_migrated(vmi, &volume) {
            continue;
        }
        let size = sizes.get(&volume).copied();
        let size = size.ok_or_else(|| MigrationXmlError::Size(volume.clone()))?;
        let backend = backend(disk).ok_or_else(|| MigrationXmlError::Disk {
            volume: volume.clone(),
            what: "source",
        })?;
        set_slice(source_mut(backend), size);
        match mode_change(vmi, &volume) {
            Some(VolumeMode::Block) => {
                let path = volume_paths::block(&volume, is_hotplugged(vmi, &volume));
                set_backend(backend, "block", "dev", "file", &path);
            }
            Some(VolumeMode::Filesystem) => {
                let path = volume_paths::file(&volume, is_hotplugged(vmi, &volume));
                set_backend(backend, "file", "file", "dev", &path);
            }
            None => {}
        }
    }
    Ok(())
}

/// The element with the type of the disk's data: the data store behind an image, or the disk itself.
fn backend(disk: &mut Element) -> Option<&mut Element> {
    let source = disk.child("source")?;
    let has_store = source
        .child("dataStore")
        .is_some_and(|store| store.child("source").is_some());
    if has_store {
        return disk.child_mut("source")?.child_mut("dataStore");
    }
    Some(disk)
}

fn source_mut(backend: &mut Element) -> &mut Element {
    backend.ensure_child("source")
}

/// Sets the size of the data, which may be smaller than the target's volume. Without it, libvirt refuses volumes of
/// another size than the source's.
fn set_slice(source: &mut Element, size: u64) {
    if source.child("slices").is_some() {
        return;
    }
    let slice = Element::new("slice")
        .with_attr("type", "storage")
        .with_attr("offset", "0")
        .with_attr("size", size.to_string());
    source.append(Element::new("slices").with_child(slice));
}

/// Sets type and path of the backend. `attribute` is the attribute of the path, and `other` that of the other type.
fn set_backend(backend: &mut Element, kind: &str, attribute: &str, other: &str, path: &str) {
    if !attr(Some(backend), "type").is_empty() || backend.is("disk") {
        backend.set_attr("type", kind);
    }
    let source = source_mut(backend);
    source.remove_attr(other);
    source.set_attr(attribute, path);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VolumeMode {
    Block,
    Filesystem,
}

/// The volume mode of the target's claim, if it differs from the source's.
fn mode_change(vmi: &Vmi, volume: &str) -> Option<VolumeMode> {
    let mut migrated = vmi.status.migrated_volumes.iter();
    let migrated = migrated.find(|migrated| migrated.volume_name == volume)?;
    let mode = |claim: &Option<ClaimInfo>| claim.as_ref()?.volume_mode.clone();
    match (
        mode(&migrated.source)?.as_str(),
        mode(&migrated.destination)?.as_str(),
    ) {
        (FILESYSTEM, BLOCK) => Some(VolumeMode::Block),
        (BLOCK, FILESYSTEM) => Some(VolumeMode::Filesystem),
        _ => None,
    }
}

fn is_hotplugged(vmi: &Vmi, volume: &str) -> bool {
    vmi.volume(volume).is_some_and(Volume::is_hotpluggable)
}
