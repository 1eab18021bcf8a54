//! Images that track changed blocks.

use super::*;
use crate::disk_expansion::tests::VMI_WITH_CLAIM;

#[test]
fn tracking_images_are_required_when_tracking_starts() {
    let overlays = |state: &str| {
        let mut all = files(&VMI_WITH_CLAIM.replace("STATE", state)).unwrap();
        all.retain(|file| matches!(file, RequiredFile::ChangedBlocks { .. }));
        all
    };
    let expected = RequiredFile::ChangedBlocks {
        volume: "pvc".into(),
        path: "/var/lib/libvirt/qemu/cbt/pvc.qcow2".into(),
        data: "/var/run/kubevirt-private/vmi-disks/pvc/disk.img".into(),
        is_block: false,
    };
    assert_eq!(overlays("Initializing"), [expected]);
    for state in ["Enabled", "Disabled", ""] {
        assert_eq!(overlays(state), [], "{state}");
    }
}

#[test]
fn tracking_images_of_a_target_with_its_own_storage_include_hotplugged_volumes() {
    let overlays = |source: &str, target: &str, mode: &str, phase: &str| {
        let device = (mode != "Filesystem").then(|| "plugged".to_owned());
        let facts = HostFacts {
            block_volumes: device.into_iter().collect(),
            ..HostFacts::default()
        };
        let mode = (!mode.is_empty()).then_some(mode);
        let mut vmi: serde_json::Value = serde_json::from_str(VMI_WITH_CLAIM).unwrap();
        vmi["spec"]["volumes"] = serde_json::json!([
            {"name": "pvc", "persistentVolumeClaim": {"claimName": "a"}},
            {"name": "plugged", "persistentVolumeClaim": {"claimName": "b", "hotpluggable": true}},
        ]);
        vmi["spec"]["domain"]["devices"]["disks"] = serde_json::json!([
            {"name": "pvc", "disk": {"bus": "virtio"}}, {"name": "plugged", "disk": {"bus": "scsi"}},
        ]);
        vmi["status"] = serde_json::json!({
            "changedBlockTracking": {"state": "Enabled"},
            "migrationState": {"sourcePersistentStatePVCName": source, "targetPersistentStatePVCName": target},
            "volumeStatus": [{"name": "pvc", "target": "vda"},
                {"name": "plugged", "phase": phase, "hotplugVolume": {},
                 "persistentVolumeClaimInfo": {"volumeMode": mode}}],
        });
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        let spec = crate::convert::convert_for(
            Purpose::MigrationTarget,
            &vmi,
            &Options::default(),
            &facts,
        );
        let spec = spec.unwrap();
        let files = required_files(Purpose::MigrationTarget, &vmi, &spec, &facts).unwrap();
        let data = files.into_iter().map(|file| match file {
            RequiredFile::ChangedBlocks { path, data, .. } => (path, data),
            other => panic!("{other:?}"),
        });
        data.collect::<Vec<_>>()
    };
    let image = |name: &str| format!("/var/lib/libvirt/qemu/cbt/{name}.qcow2");
    let permanent = (
        image("pvc"),
        "/var/run/kubevirt-private/vmi-disks/pvc/disk.img".to_owned(),
    );
    let plugged = |data: &str| (image("plugged"), data.to_owned());
    let device = plugged("/var/run/kubevirt/hotplug-disks/plugged");
    assert_eq!(
        overlays("a", "b", "Block", "Ready"),
        [permanent.clone(), device.clone()]
    );
    // The cluster does not report the volume mode, and the pod has a block device.
    assert_eq!(overlays("a", "b", "", "Ready"), [permanent.clone(), device]);
    let file = plugged("/var/run/kubevirt/hotplug-disks/plugged.img");
    assert_eq!(
        overlays("a", "b", "Filesystem", "Ready"),
        [permanent.clone(), file]
    );
    assert_eq!(overlays("a", "b", "Block", "Pending"), [permanent]);
    for (source, target) in [("a", "a"), ("", "b"), ("a", "")] {
        assert_eq!(
            overlays(source, target, "Block", "Ready"),
            [],
            "{source} {target}"
        );
    }
}
