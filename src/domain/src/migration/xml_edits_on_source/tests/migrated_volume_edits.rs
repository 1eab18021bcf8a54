//! Edits of disks whose data is copied to another claim.

use super::*;

fn vmi_with_migrated_volume(from: &str, to: &str, hotpluggable: bool) -> Vmi {
    let spec = json!({"volumes": [{"name": "moved", "dataVolume": {"name": "d", "hotpluggable": hotpluggable}}]});
    let volume = json!({"volumeName": "moved", "sourcePVCInfo": {"volumeMode": from},
        "destinationPVCInfo": {"volumeMode": to}});
    vmi(spec, json!({"migratedVolumes": [volume]}))
}

fn edits_with_size(bytes: u64) -> TargetEdits {
    TargetEdits {
        disk_sizes: BTreeMap::from([("moved".to_owned(), bytes)]),
        ..TargetEdits::default()
    }
}

#[test]
fn migrated_volume_gets_a_slice_and_the_volume_mode_of_the_target() {
    let slices = "<slices>\n  <slice type='storage' offset='0' size='4096'/>\n</slices>";
    let cases = [
        (
            "file",
            "file='/a.img'",
            "Filesystem",
            "Block",
            false,
            "block",
            "dev='/dev/moved'",
        ),
        (
            "file",
            "file='/a.img'",
            "Filesystem",
            "Block",
            true,
            "block",
            "dev='/var/run/kubevirt/hotplug-disks/moved'",
        ),
        (
            "block",
            "dev='/dev/a'",
            "Block",
            "Filesystem",
            false,
            "file",
            "file='/var/run/kubevirt-private/vmi-disks/moved/disk.img'",
        ),
        (
            "block",
            "dev='/dev/a'",
            "Block",
            "Filesystem",
            true,
            "file",
            "file='/var/run/kubevirt/hotplug-disks/moved.img'",
        ),
        (
            "block",
            "dev='/dev/a'",
            "Block",
            "Block",
            false,
            "block",
            "dev='/dev/a'",
        ),
    ];
    for (kind, source, from, to, hotplugged, expected_kind, expected_source) in cases {
        let xml = domain(&[disk(kind, source, "moved", "")]);
        let edited = edit_xml(
            &xml,
            &vmi_with_migrated_volume(from, to, hotplugged),
            &edits_with_size(4096),
        );
        let edited = document(&edited);
        let disk = edited.find("/domain/devices/disk").unwrap().unwrap();
        assert_eq!(disk.attr("type").unwrap(), expected_kind);
        let source = disk.child("source").unwrap();
        let attributes: Vec<_> = source
            .attrs()
            .map(|(name, value)| format!("{name}='{value}'"))
            .collect();
        assert_eq!(attributes, [expected_source]);
        let slice = source.child("slices").unwrap().child("slice").unwrap();
        let text: String = slices.split_whitespace().collect();
        assert!(text.contains("size='4096'") && slice.attr("size").unwrap() == "4096");
    }
}

#[test]
fn data_store_of_a_tracked_disk_gets_the_volume_mode_of_the_target() {
    let xml = "<domain><devices><disk type='file'><source file='/overlay.qcow2'><dataStore type='file'>\
        <format type='raw'/><source file='/a.img'/></dataStore></source><target dev='vda'/>\
        <alias name='ua-moved'/></disk></devices></domain>";
    let edited = document(&edit_xml(
        xml,
        &vmi_with_migrated_volume("Filesystem", "Block", false),
        &edits_with_size(1),
    ));
    let disk = edited.find("/domain/devices/disk").unwrap().unwrap();
    assert_eq!(disk.attr("type").unwrap(), "file");
    let source = disk.child("source").unwrap();
    assert_eq!(source.attr("file").unwrap(), "/overlay.qcow2");
    let store = source.child("dataStore").unwrap();
    assert_eq!(store.attr("type").unwrap(), "block");
    assert_eq!(
        store.child("source").unwrap().attr("dev").unwrap(),
        "/dev/moved"
    );
    assert!(store.child("source").unwrap().child("slices").is_some());
    assert!(source.child("slices").is_none());
}

#[test]
fn existing_slice_is_kept_and_missing_size_or_source_is_an_error() {
    let sliced = "<domain><devices><disk type='file'><source file='/a'><slices><slice size='1'/></slices></source>\
        <alias name='ua-moved'/></disk></devices></domain>";
    let vmi = vmi_with_migrated_volume("Block", "Block", false);
    assert_eq!(edit_xml(sliced, &vmi, &edits_with_size(7)), sliced);
    let unknown = target_xml(sliced.to_owned(), &vmi, &TargetEdits::default());
    assert!(unknown.unwrap_err().to_string().contains("volume moved"));
    let empty = "<domain><devices><disk><alias name='ua-moved'/></disk></devices></domain>";
    let error = target_xml(empty.to_owned(), &vmi, &edits_with_size(7)).unwrap_err();
    assert!(error.to_string().contains("no source"), "{error}");
    assert!(target_xml("<domain".into(), &vmi, &edits_with_size(7)).is_err());
}
