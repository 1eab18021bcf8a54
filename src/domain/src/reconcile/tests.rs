//! Plans for disks and CD-ROM media.
#![allow(clippy::unwrap_used)]

mod interfaces;

use serde_json::{Value, json};

use super::*;

fn vmi(status: Value, interfaces: Value) -> Vmi {
    let networks = json!([{"name": "blue", "multus": {"networkName": "blue"}}]);
    let vmi = json!({
        "metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
        "spec": {"domain": {"devices": {"interfaces": interfaces}}, "networks": networks},
        "status": status,
    });
    Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
}

fn xml(devices: &str) -> String {
    format!("<domain><devices>{devices}</devices></domain>")
}

fn wanted(devices: &str) -> DomainSpec {
    crate::domain_spec_from_xml::parse(&xml(devices)).unwrap()
}

fn live(devices: &str) -> LiveDomain {
    LiveDomain::parse(xml(devices)).unwrap()
}

fn descriptions(changes: &[DeviceChange]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

fn disk_changes(wanted_disks: &str, live_disks: &str) -> Vec<DeviceChange> {
    let vmi = vmi(json!({"phase": "Running"}), json!([]));
    plan(&vmi, &wanted(wanted_disks), &live(live_disks))
}

const ROOT: &str = "<disk type='file' device='disk'><source file='/root.img'/>\
    <target dev='vda' bus='virtio'/></disk>";
const DATA: &str = "<disk type='file' device='disk'>\
    <source file='/var/run/kubevirt/hotplug-disks/data.img'/>\
    <target dev='sda' bus='scsi'/><alias name='ua-data'/></disk>";
/// The disk `DATA` with additions of libvirt and a hook, in a notation that libvirt does not use.
const LIVE_DATA: &str = "<disk type='file' device='disk'><driver name='qemu' discard_no_unref='on'/>\
    <source file=\"/var/run/kubevirt/hotplug-disks/data.img\" index='3'/><backingStore/>\
    <target dev='sda' bus='scsi'/><serial>CaseKept</serial><hook:made xmlns:hook='urn:x'/>\
    <alias name='ua-data'/></disk>";

#[test]
fn only_hotplugged_disks_are_attached_and_detached() {
    let both = format!("{ROOT}{DATA}");
    let live_both = format!("{ROOT}{LIVE_DATA}");
    assert_eq!(
        descriptions(&disk_changes(&both, ROOT)),
        ["attaching volume data"]
    );
    assert_eq!(
        descriptions(&disk_changes(ROOT, &live_both)),
        ["detaching volume data"]
    );
    assert_eq!(disk_changes(&both, &live_both), []);
    assert_eq!(disk_changes("", ROOT), [], "a permanent disk stays");
    let sata = DATA.replace("scsi", "sata");
    assert_eq!(disk_changes(&sata, ""), [], "sata cannot be hotplugged");
    assert_eq!(disk_changes("", &sata), []);
}

#[test]
fn detached_disk_is_sent_as_libvirt_described_it() {
    let changes = disk_changes(ROOT, &format!("{ROOT}{LIVE_DATA}"));
    let [DeviceChange::DetachDisk(device)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(device.xml, LIVE_DATA);
    assert_eq!(
        (device.name.as_str(), device.alias.as_str()),
        ("data", "ua-data")
    );
    assert_eq!(device.overlay, None);
}

#[test]
fn detached_disk_names_the_image_that_tracks_its_changed_blocks() {
    let tracked = "<disk type='file' device='disk'><source file='/cbt/data.qcow2'>\
        <dataStore type='file'><format type='raw'/>\
        <source file='/var/run/kubevirt/hotplug-disks/data.img'/></dataStore></source>\
        <target dev='sda' bus='scsi'/></disk>";
    let changes = disk_changes("", tracked);
    let [DeviceChange::DetachDisk(device)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(device.overlay.as_deref(), Some("/cbt/data.qcow2"));
    assert_eq!(
        device.name, "sda",
        "a disk without alias has its target's name"
    );
    assert_eq!(disk_changes(tracked, ""), disk_changes(tracked, ROOT));
}

#[test]
fn volume_whose_target_a_hook_disk_occupies_is_reported() {
    let disk = |file: &str, alias: &str| {
        format!(
            "<disk type='file' device='disk'><source file='{file}'/><target dev='sdb' bus='scsi'/>\
             <alias name='{alias}'/></disk>"
        )
    };
    let data = disk("/var/run/kubevirt/hotplug-disks/data.img", "ua-data");
    let occupied = |other: &str| occupied_targets(&wanted(&data), &live(other));
    let hook_disk = disk("/srv/cache.img", "scsi0-0-0-1");
    assert_eq!(occupied(&hook_disk), [("data".into(), "sdb".into())]);
    assert_eq!(occupied(&data), []);
    assert_eq!(occupied(""), []);
}

fn drive(source: &str) -> String {
    let kind = if source.is_empty() { "block" } else { "file" };
    format!(
        "<disk type='{kind}' device='cdrom'><driver name='qemu' type='raw' error_policy='stop'/>{source}\
         <target dev='sdb' bus='sata' tray='open'/><serial>CD</serial><alias name='ua-cd'/></disk>"
    )
}

#[test]
fn only_hotplugged_media_are_changed() {
    let hotplugged = drive("<source file='/var/run/kubevirt/hotplug-disks/cd.img'/>");
    let other = drive("<source file='/var/run/kubevirt/hotplug-disks/other.img'/>");
    let (empty, permanent) = (drive(""), drive("<source file='/cd.iso'/>"));
    let changes = |wanted: &str, live: &str| descriptions(&disk_changes(wanted, live));
    let (insert, eject) = (
        ["inserting volume cd"],
        ["ejecting the medium of CD-ROM drive cd"],
    );
    assert_eq!(changes(&hotplugged, &empty), insert);
    assert_eq!(changes(&other, &hotplugged), insert);
    assert_eq!(changes(&empty, &hotplugged), eject);
    assert_eq!(changes("", &hotplugged), eject, "its volume is not mounted");
    for (wanted, live) in [
        (&empty, &permanent),
        (&permanent, &empty),
        (&empty, &empty),
        (&hotplugged, &hotplugged),
        (&String::new(), &empty),
    ] {
        assert_eq!(disk_changes(wanted, live), [], "{live} to {wanted}");
    }
}

#[test]
fn change_of_a_medium_keeps_the_rest_of_the_drive() {
    let medium = "<source file='/var/run/kubevirt/hotplug-disks/cd.img'/>";
    let with_medium = drive(&format!(
        "{}<backingStore/>",
        medium.replace("/>", " index='2'/>")
    ));
    let xml = |wanted: &str, live: &str| match disk_changes(wanted, live).as_slice() {
        [DeviceChange::ChangeMedium(change)] => (change.medium.clone(), change.xml.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(xml(&drive(""), &with_medium), (None, drive("")));
    let (path, inserted) = xml(&drive(medium), &drive(""));
    assert_eq!(
        path.as_deref(),
        Some("/var/run/kubevirt/hotplug-disks/cd.img")
    );
    let expected = drive(medium).replace('\'', "\"");
    assert_eq!(inserted.replace('\'', "\""), expected);
}

#[test]
fn hotplugged_scsi_drive_is_detached_and_not_ejected() {
    let scsi =
        drive("<source file='/var/run/kubevirt/hotplug-disks/cd.img'/>").replace("sata", "scsi");
    assert_eq!(
        descriptions(&disk_changes("", &scsi)),
        ["detaching volume cd"]
    );
}

#[test]
fn documents_without_domain_root_are_errors() {
    assert!(LiveDomain::parse("<network/>".into()).is_err());
    assert!(LiveDomain::parse("<domain>".into()).is_err());
}
