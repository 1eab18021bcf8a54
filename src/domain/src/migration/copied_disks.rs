//! Selects the disks whose data is copied to the target, because only this node has it.

use domain_xml::{Document, Element};
use kubevirt_api::vmi::{Vmi, Volume};

use super::disk_accessors::{attr, disks, target, volume};

/// The target names (`vda`) of the disks that libvirt has to copy. `domain` is libvirt's XML of the running domain.
pub fn disks_to_copy(vmi: &Vmi, domain: &Document) -> Vec<String> {
    let copied = disks(domain).filter(|disk| {
        let kind = attr(Some(disk), "type");
        let volume = vmi.volume(&volume(disk));
        let is_local = matches!(kind.as_str(), "file" | "block");
        let is_unchanged = disk.child("readonly").is_some() && !volume.is_some_and(is_generated);
        let is_shared = volume.is_some_and(|volume| is_shared(vmi, volume));
        attr(Some(disk), "device") != "cdrom" && is_local && !is_unchanged && !is_shared
    });
    copied
        .map(target)
        .filter(|target| !target.is_empty())
        .collect()
}

/// The volumes that are copied to other claims, with the paths of their disks' images or devices.
pub fn migrated_volume_disks(vmi: &Vmi, domain: &Document) -> Vec<(String, String)> {
    let disks = disks(domain).map(|disk| (volume(disk), source_path(disk)));
    disks
        .filter(|(volume, _)| is_migrated(vmi, volume))
        .collect()
}

fn source_path(disk: &Element) -> String {
    let source = disk.child("source");
    match attr(source, "file") {
        file if file.is_empty() => attr(source, "dev"),
        file => file,
    }
}

/// Whether the volume of this name is copied to another claim.
pub(super) fn is_migrated(vmi: &Vmi, name: &str) -> bool {
    let has_claim = |volume: &Volume| has_claim(volume) || volume.host_disk.is_some();
    is_in_migrated_volumes(vmi, name) && vmi.volume(name).is_some_and(has_claim)
}

fn is_in_migrated_volumes(vmi: &Vmi, name: &str) -> bool {
    let mut migrated = vmi.status.migrated_volumes.iter();
    migrated.any(|migrated| migrated.volume_name == name)
}

fn has_claim(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some() || volume.data_volume.is_some()
}

/// Whether both nodes have the volume.
fn is_shared(vmi: &Vmi, volume: &Volume) -> bool {
    if is_in_migrated_volumes(vmi, &volume.name) {
        return false;
    }
    let host_disk = volume.host_disk.as_ref();
    has_claim(volume) || host_disk.is_some_and(|disk| disk.shared == Some(true))
}

/// Whether the launcher generates the image from the VMI. The target generates one of the same size.
fn is_generated(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.service_account.is_some()
        || volume.cloud_init_no_cloud.is_some()
        || volume.cloud_init_config_drive.is_some()
        || volume.container_disk.is_some()
}
