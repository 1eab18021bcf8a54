//! Media of CD-ROM drives.

use domain_xml::Element;

use super::device_change::{DeviceChange, MediumChange};
use super::hotplugged_disks::{is_hotpluggable, is_hotplugged};
use super::live_domain::Live;
use crate::disk_backend::DiskBackend;
use crate::libvirt_spec::Disk;

const CDROM: &str = "cdrom";
/// The order of a disk's children in libvirt's schema, up to what is inserted here.
const ORDER: [&str; 3] = ["driver", "auth", "source"];

pub(super) fn changes(wanted: &[Disk], live: &[Live<'_, Disk>]) -> Vec<DeviceChange> {
    let changes = live.iter().filter_map(|drive| {
        let target = &drive.spec.target.device;
        let wanted = wanted.iter().find(|disk| disk.target.device == *target);
        change(drive, wanted)
    });
    changes.collect()
}

/// The change of one drive. A permanent medium is never changed.
fn change(drive: &Live<'_, Disk>, wanted: Option<&Disk>) -> Option<DeviceChange> {
    let is_managed = |disk: &Disk| {
        disk.device == CDROM && (DiskBackend::of(disk).is_none() || is_hotplugged(disk))
    };
    let is_detached = wanted.is_none() && is_hotpluggable(&drive.spec);
    if !is_managed(&drive.spec) || is_detached || !wanted.is_none_or(is_managed) {
        return None;
    }
    let medium = wanted.and_then(DiskBackend::of);
    let path = |backend: &DiskBackend| backend.path.clone();
    let now = DiskBackend::of(&drive.spec);
    if now.as_ref().map(path) == medium.as_ref().map(path) {
        return None;
    }
    let device = drive.device(&drive.spec.target.device, None);
    Some(DeviceChange::ChangeMedium(MediumChange {
        name: device.name,
        xml: with_medium(drive.element, medium.as_ref()).render(),
        medium: medium.as_ref().map(path),
    }))
}

/// The drive with another medium. A medium is read-only, so that its changed blocks are never tracked, and raw.
fn with_medium(drive: &Element, medium: Option<&DiskBackend>) -> Element {
    let mut drive = drive.clone();
    drive.remove_child("source");
    // libvirt's description of the old medium's images.
    drive.remove_child("backingStore");
    let is_file = medium.is_some_and(|medium| !medium.is_block);
    drive.set_attr("type", if is_file { "file" } else { "block" });
    drive
        .ensure_child_ordered("driver", &ORDER)
        .set_attr("type", "raw");
    if let Some(medium) = medium {
        let attribute = if is_file { "file" } else { "dev" };
        let source = Element::new("source").with_attr(attribute, &medium.path);
        drive.insert_ordered(source, &ORDER);
    }
    drive
}
