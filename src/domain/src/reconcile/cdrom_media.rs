//! Changes of media in CD-ROM drives.

use domain_xml::Element;

use super::device_change::{DeviceChange, MediumChange};
use super::hotplugged_disks::{counterpart, is_hotpluggable, is_hotplugged};
use super::live_domain::TypedDevice;
use crate::disk_backend::DiskBackend;
use crate::libvirt_spec::Disk;

const CDROM: &str = "cdrom";
/// The order of a disk's first children in libvirt's schema.
const CHILD_ORDER: [&str; 3] = ["driver", "auth", "source"];

pub(super) fn changes(wanted: &[Disk], live: &[TypedDevice<'_, Disk>]) -> Vec<DeviceChange> {
    let changes = live
        .iter()
        .filter_map(|drive| medium_change(drive, counterpart(&drive.spec, wanted)));
    changes.collect()
}

/// The change of one drive's medium. A medium that is not hotplugged is never changed.
fn medium_change(drive: &TypedDevice<'_, Disk>, wanted: Option<&Disk>) -> Option<DeviceChange> {
    let is_managed = |disk: &Disk| {
        disk.device == CDROM && (DiskBackend::from_disk(disk).is_none() || is_hotplugged(disk))
    };
    let is_detached = wanted.is_none() && is_hotpluggable(&drive.spec);
    if !is_managed(&drive.spec) || is_detached || !wanted.is_none_or(is_managed) {
        return None;
    }
    let medium = wanted.and_then(DiskBackend::from_disk);
    let path = |backend: &DiskBackend| backend.path.clone();
    let current = DiskBackend::from_disk(&drive.spec);
    if current.as_ref().map(path) == medium.as_ref().map(path) {
        return None;
    }
    let device = drive.device(&drive.spec.target.device, None);
    Some(DeviceChange::ChangeMedium(MediumChange {
        name: device.name,
        xml: with_medium(drive.element, medium.as_ref()).render(),
        medium: medium.as_ref().map(path),
    }))
}

/// The drive with another medium. Media are raw images, and read-only, so that their changed blocks are never tracked.
fn with_medium(drive: &Element, medium: Option<&DiskBackend>) -> Element {
    let mut drive = drive.clone();
    drive.remove_child("source");
    // libvirt describes the old medium's backing images here.
    drive.remove_child("backingStore");
    let is_file = medium.is_some_and(|medium| !medium.is_block);
    drive.set_attr("type", if is_file { "file" } else { "block" });
    drive
        .ensure_child_ordered("driver", &CHILD_ORDER)
        .set_attr("type", "raw");
    if let Some(medium) = medium {
        let attribute = if is_file { "file" } else { "dev" };
        let source = Element::new("source").with_attr(attribute, &medium.path);
        drive.insert_ordered(source, &CHILD_ORDER);
    }
    drive
}
