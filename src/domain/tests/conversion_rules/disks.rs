//! Sources, block sizes, volume modes and target names of disks, and pools of IO threads.

use domain::convert::block_size_lookups;
use serde_json::{Value, json};

use super::Case;

fn case(disk: Value, volume: Value, mode: &str) -> Case {
    Case::of(json!({"domain": {"devices": {"disks": [disk]}}, "volumes": [volume]})).status(json!({
        "volumeStatus": [{"name": "v", "persistentVolumeClaimInfo": {"volumeMode": mode}}],
    }))
}

fn claim() -> Value {
    json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})
}

#[test]
fn volumes_with_changed_block_tracking_get_a_qcow2_image() {
    let disk = json!({"name": "v", "disk": {"bus": "virtio"}});
    let tracked = |volume: Value, mode: &str| {
        let mut case = case(disk.clone(), volume, mode);
        case.status["changedBlockTracking"] = json!({"state": "Enabled"});
        case.status["runtimeUser"] = json!(107);
        case.domain_spec().devices.disks.remove(0)
    };
    let overlay = "/var/run/kubevirt-private/libvirt/qemu/cbt/v.qcow2";
    let block = tracked(claim(), "Block");
    assert_eq!(
        (block.kind.as_str(), block.source.file.as_str()),
        ("file", overlay)
    );
    assert_eq!(
        (block.source.name.as_str(), block.source.dev.as_str()),
        ("v", "")
    );
    assert_eq!(block.driver.unwrap().kind, "qcow2");
    let store = block.source.data_store.unwrap();
    assert_eq!(
        (store.kind.as_str(), store.source.unwrap().dev.as_str()),
        ("block", "/dev/v")
    );
    let host = tracked(
        json!({"name": "v", "hostDisk": {"path": "/data/a.img"}}),
        "Filesystem",
    );
    let store = host.source.data_store.unwrap();
    assert_eq!(store.kind, "file");
    assert_eq!(
        store.source.unwrap().file,
        "/var/run/kubevirt-private/vmi-disks/v/a.img"
    );
    let empty = tracked(
        json!({"name": "v", "emptyDisk": {"capacity": "1Mi"}}),
        "Filesystem",
    );
    assert!(empty.source.data_store.is_none());
}

#[test]
fn match_volume_gives_the_guest_the_block_sizes_of_the_volume() {
    let disk = json!({"name": "v", "disk": {"bus": "virtio"}, "blockSize": {"matchVolume": {}}});
    let case = case(disk, claim(), "Block");
    let (vmi, options, host) = case.inputs();
    let lookups = block_size_lookups(&vmi, &options, &host).unwrap();
    assert_eq!(
        (lookups[0].path.as_str(), lookups[0].is_block),
        ("/dev/v", true)
    );
    assert_eq!(
        case.conversion_error(),
        "failed to configure disk with block size detection enabled: nobody has asked /dev/v for its block sizes; they belong in the host facts"
    );
    let sizes = json!({"blockSizes": {"/dev/v": {"logical": 512, "physical": 4096, "discardGranularity": 4096}}});
    let io = case
        .host(sizes)
        .domain_spec()
        .devices
        .disks
        .remove(0)
        .block_io
        .unwrap();
    assert_eq!(
        (
            io.logical_block_size,
            io.physical_block_size,
            io.discard_granularity
        ),
        (512, 4096, Some(4096))
    );
}

#[test]
fn block_sizes_of_a_hotplugged_volume_are_needed_when_it_is_in_the_pod() {
    let disk = json!({"name": "v", "disk": {"bus": "scsi"}, "blockSize": {"matchVolume": {}}});
    let plugged = |phase: &str| {
        Case::of(json!({"domain": {"devices": {"disks": [disk]}}, "volumes": [claim()]})).status(
            json!({"volumeStatus": [
                {"name": "root", "target": "vda"},
                {"name": "v", "phase": phase, "hotplugVolume": {},
                 "persistentVolumeClaimInfo": {"volumeMode": "Block"}}]}),
        )
    };
    let (vmi, options, host) = plugged("AttachedToNode").inputs();
    assert_eq!(block_size_lookups(&vmi, &options, &host).unwrap(), []);
    assert!(
        plugged("AttachedToNode")
            .domain_spec()
            .devices
            .disks
            .is_empty()
    );
    let error = plugged("MountedToPod").conversion_error();
    assert!(
        error.contains("/var/run/kubevirt/hotplug-disks/v"),
        "{error}"
    );
}

/// virt-controller does not report the mode of the claim below an ephemeral volume, and nobody reports modes to a
/// standalone VM.
/// While a volume is migrated, it reports the mode of the new claim, and the source has the old claim.
#[test]
fn volume_mode_found_in_the_pod_has_precedence_over_the_status() {
    let disk = json!({"name": "v", "disk": {"bus": "virtio"}});
    let convert = |volume: Value, host: Value| {
        let case = Case::of(json!({"domain": {"devices": {"disks": [disk]}}, "volumes": [volume]}));
        case.host(host).domain_spec().devices.disks.remove(0)
    };
    let device = json!({"blockVolumes": ["v"]});
    let layer = json!({"name": "v", "ephemeral": {"persistentVolumeClaim": {"claimName": "c"}}});
    let backing = |host: Value| convert(layer.clone(), host).backing_store.unwrap();
    let store = backing(device.clone());
    assert_eq!(
        (store.kind.as_str(), store.source.unwrap().dev.as_str()),
        ("block", "/dev/v")
    );
    assert_eq!(backing(json!({})).kind, "file");
    assert_eq!(convert(claim(), device.clone()).source.dev, "/dev/v");
    let reported = |mode: &str, host: Value| {
        let case = case(disk.clone(), claim(), mode).host(host);
        case.domain_spec().devices.disks.remove(0).kind
    };
    assert_eq!(reported("Filesystem", json!({})), "file");
    assert_eq!(reported("Filesystem", device), "block");
    assert_eq!(reported("Block", json!({})), "block");
    assert_eq!(reported("Block", json!({"imageVolumes": ["v"]})), "file");
}

#[test]
fn match_volume_of_an_empty_cdrom_drive_is_an_error() {
    let disk = json!({"name": "v", "cdrom": {"bus": "sata"}, "blockSize": {"matchVolume": {}}});
    let case = Case::devices(json!({"disks": [disk]}));
    assert!(
        case.conversion_error()
            .ends_with("disk is neither a block device nor a file")
    );
    let off = json!({"name": "v", "cdrom": {"bus": "sata"}, "blockSize": {"matchVolume": {"enabled": false}}});
    assert!(
        Case::devices(json!({"disks": [off]}))
            .domain_spec()
            .devices
            .disks[0]
            .block_io
            .is_none()
    );
}

#[test]
fn supplemental_io_thread_pool_without_a_size_is_an_error() {
    let case = Case::domain(json!({"ioThreadsPolicy": "supplementalPool"}));
    assert!(
        case.conversion_error()
            .starts_with("spec.domain.ioThreads.supplementalPoolThreadCount is \"\"")
    );
}

/// libvirt then reports the duplicate name.
#[test]
fn disks_listed_twice_share_one_target_name() {
    let disk = json!({"name": "d", "disk": {"bus": "virtio"}});
    let other = json!({"name": "e", "disk": {"bus": "virtio"}});
    let case = Case::of(json!({
        "domain": {"devices": {"disks": [disk, other, disk]}},
        "volumes": [{"name": "d", "emptyDisk": {}}, {"name": "e", "emptyDisk": {}}]
    }));
    let disks = case.domain_spec().devices.disks;
    let names: Vec<_> = disks.iter().map(|disk| &*disk.target.device).collect();
    assert_eq!(names, ["vda", "vdb", "vda"]);
}
