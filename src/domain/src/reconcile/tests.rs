//! Plans for disks and CD-ROM media.

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

/// The running domain with these devices, and the SCSI controller of each VM that was started with hotplug.
fn live(devices: &str) -> LiveDomain {
    let controller = "<controller type='scsi' index='0' model='virtio-scsi'/>";
    LiveDomain::parse(xml(&format!("{controller}{devices}"))).unwrap()
}

fn descriptions(changes: &[DeviceChange]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

fn disk_changes(wanted_disks: &str, live_disks: &str) -> Vec<DeviceChange> {
    let vmi = vmi(json!({"phase": "Running"}), json!([]));
    plan(&vmi, &wanted(wanted_disks), &live(live_disks)).changes
}

/// The volumes that are not attached, each with the reason.
fn held(wanted_disks: &str, live: &LiveDomain) -> Vec<(String, HoldReason)> {
    let vmi = vmi(json!({"phase": "Running"}), json!([]));
    let held = plan(&vmi, &wanted(wanted_disks), live).held.into_iter();
    held.map(|held| (held.volume, held.reason)).collect()
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

/// The image of changed blocks is removed with the disk. A hook may name any file there.
#[test]
fn detached_disk_names_only_the_launchers_image_of_its_changed_blocks() {
    let tracked = |image: &str, alias: &str| {
        format!(
            "<disk type='file' device='disk'><source file='{image}'>\
             <dataStore type='file'><format type='raw'/>\
             <source file='/var/run/kubevirt/hotplug-disks/data.img'/></dataStore></source>\
             <target dev='sda' bus='scsi'/>{alias}</disk>"
        )
    };
    let overlay =
        |image: &str, alias: &str| match disk_changes("", &tracked(image, alias)).as_slice() {
            [DeviceChange::DetachDisk(device)] => device.overlay.clone(),
            changes => panic!("{changes:?}"),
        };
    let (made, alias) = (
        "/var/lib/libvirt/qemu/cbt/data.qcow2",
        "<alias name='ua-data'/>",
    );
    assert_eq!(overlay(made, alias).as_deref(), Some(made));
    let rows = [
        ("another file", "/var/lib/libvirt/qemu/nvram/data.fd", alias),
        (
            "another volume's image",
            "/var/lib/libvirt/qemu/cbt/other.qcow2",
            alias,
        ),
        (
            "another directory",
            "/var/lib/libvirt/qemu/cbt/../cbt/data.qcow2",
            alias,
        ),
        ("no volume", made, ""),
        (
            "a path in the alias",
            "/var/lib/libvirt/qemu/cbt/../x.qcow2",
            "<alias name='ua-../x'/>",
        ),
    ];
    for (row, image, alias) in rows {
        assert_eq!(overlay(image, alias), None, "{row}");
    }
}

#[test]
fn disk_without_an_alias_is_the_disk_of_its_image() {
    let image = "/var/run/kubevirt/hotplug-disks/data.img";
    let disk = format!(
        "<disk type='file' device='disk'><source file='{image}'/><target dev='sda' bus='scsi'/></disk>"
    );
    let changes = disk_changes("", &disk);
    let [DeviceChange::DetachDisk(device)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(device.name, "sda", "it has its target's name");
    assert_eq!(disk_changes(DATA, &disk), []);
    assert_eq!(disk_changes(&disk, ""), disk_changes(&disk, ROOT));
}

/// A SCSI disk.
fn disk(file: &str, target: &str, alias: &str) -> String {
    format!(
        "<disk type='file' device='disk'><source file='{file}'/><target dev='{target}' bus='scsi'/>\
         <alias name='{alias}'/></disk>"
    )
}

/// The disk of a hotplugged volume.
fn volume(name: &str, target: &str) -> String {
    let file = format!("/var/run/kubevirt/hotplug-disks/{name}.img");
    disk(&file, target, &format!("ua-{name}"))
}

#[test]
fn volume_whose_target_a_hook_disk_occupies_is_reported() {
    let data = volume("data", "sdb");
    let hook_disk = disk("/srv/cache.img", "sdb", "scsi0-0-0-1");
    assert_eq!(
        held(&data, &live(&hook_disk)),
        [("data".into(), HoldReason::HookDisk("sdb".into()))]
    );
    assert_eq!(held(&data, &live(&data)), []);
    assert_eq!(held(&data, &live("")), []);
}

#[test]
fn volume_that_replaces_another_on_its_target_is_attached_after_the_other_is_detached() {
    let changes = |wanted: &str, live: &str| descriptions(&disk_changes(wanted, live));
    assert_eq!(
        changes(&volume("new", "sda"), &volume("old", "sda")),
        ["detaching volume old", "attaching volume new"]
    );
    assert_eq!(
        live(&volume("old", "sda")).occupant(&wanted(&volume("new", "sda")).devices.disks[0]),
        Some("old".into()),
        "as long as the guest keeps the old disk"
    );
}

/// Volumes get their targets in the VMI's order until its status has them.
#[test]
fn volume_keeps_its_disk_when_the_vmi_counts_targets_anew() {
    let wanted = format!("{}{}", volume("new", "sda"), volume("old", "sdb"));
    let attached = volume("old", "sda");
    assert_eq!(disk_changes(&wanted, &attached), []);
    let reason = HoldReason::OtherVolume {
        target: "sda".into(),
        volume: "old".into(),
    };
    assert_eq!(held(&wanted, &live(&attached)), [("new".into(), reason)]);
}

#[test]
fn disk_whose_alias_a_hook_changed_is_the_disk_of_its_image() {
    let data = volume("data", "sda");
    assert_eq!(
        disk_changes(&data, &data.replace("ua-data", "ua-hooked")),
        []
    );
    let on_virtio = data.replace("'scsi'", "'virtio'").replace("sda", "vdb");
    assert_eq!(
        descriptions(&disk_changes(&on_virtio, &data)),
        ["detaching volume data", "attaching volume data"],
        "a volume that moves to another bus is another disk"
    );
}

#[test]
fn scsi_volume_needs_the_scsi_controller_of_a_vm_that_was_started_with_hotplug() {
    let without_controller = LiveDomain::parse(xml(ROOT)).unwrap();
    assert_eq!(
        held(&volume("data", "sda"), &without_controller),
        [("data".into(), HoldReason::NoScsiController)]
    );
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
