use kubevirt_api::virtual_machine_options::Options;

use super::*;
use crate::host_facts::HostFacts;

/// A VM with a disk image on a claim; `STATE` is that of the tracking of changed blocks.
pub(crate) const CLAIMED: &str = r#"{"metadata":{"name":"vm","namespace":"ns","uid":"u"},"spec":{
    "domain":{"machine":{"type":"q35"},"memory":{"guest":"128Mi"},"devices":{"disks":[{"name":"pvc","disk":{"bus":"virtio"}}]}},
    "volumes":[{"name":"pvc","hostDisk":{"path":"/x/disk.img","type":"DiskOrCreate","capacity":"1Gi"}}]},
    "status":{"changedBlockTracking":{"state":"STATE"},"volumeStatus":[{"name":"pvc","target":"vda",
      "persistentVolumeClaimInfo":{"filesystemOverhead":"0.055","capacity":{"storage":"2Gi"},"requests":{"storage":"1Gi"}}}]}}"#;

#[test]
fn image_size_is_limited_by_claim_and_file_system() {
    let vmi = Vmi::from_json(CLAIMED.replace("STATE", "Disabled").as_bytes()).unwrap();
    let spec = crate::convert::convert(&vmi, &Options::default(), &HostFacts::default()).unwrap();
    let found = image_expansions(&vmi, &spec);
    let [expansion] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(
        (expansion.capacity, expansion.format.as_str()),
        (1 << 30, "raw")
    );
    assert_eq!(
        live_expansions(&vmi, &spec),
        [LiveExpansion::File(expansion.clone())]
    );
    assert_eq!(
        expansion.size(None),
        Some(967 * MIB),
        "1 GiB without 5.5 %, whole mebibytes"
    );
    assert_eq!(expansion.size(Some(100 * MIB)), Some(94 * MIB));
    assert_eq!(expansion.size(Some(MIB)), None);
    assert_eq!(expansion.size(Some(u64::MAX)), expansion.size(None));
    let whole = ImageExpansion {
        overhead: 0.0,
        ..expansion.clone()
    };
    assert_eq!(whole.size(None), Some(1 << 30));
}

#[test]
fn block_devices_expand_live() {
    const BLOCK: &str = r#"{"name":"pvc","target":"vda","persistentVolumeClaimInfo":{"volumeMode":"Block",
      "capacity":{"storage":"2Gi"}}}"#;
    let mut vmi: serde_json::Value = serde_json::from_str(CLAIMED).unwrap();
    vmi["spec"]["volumes"] =
        serde_json::json!([{"name":"pvc","persistentVolumeClaim":{"claimName":"x"}}]);
    vmi["status"] = serde_json::json!({"volumeStatus": [serde_json::from_str::<serde_json::Value>(BLOCK).unwrap()]});
    let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
    let spec = crate::convert::convert(&vmi, &Options::default(), &HostFacts::default()).unwrap();
    let device = LiveExpansion::Device {
        volume: "pvc".into(),
        path: "/dev/pvc".into(),
        device: "/dev/pvc".into(),
    };
    assert_eq!(live_expansions(&vmi, &spec), [device]);
    assert_eq!(image_expansions(&vmi, &spec), []);
}
