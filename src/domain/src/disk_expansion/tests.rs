//! The disks that are expanded, and their sizes.

use kubevirt_api::virtual_machine_options::Options;

use super::*;
use crate::host_facts::HostFacts;

/// A VMI with a disk image on a claim. `STATE` stands for the state of changed block tracking.
pub(crate) const VMI_WITH_CLAIM: &str = r#"{"metadata":{"name":"vm","namespace":"ns","uid":"u"},"spec":{
    "domain":{"machine":{"type":"q35"},"memory":{"guest":"128Mi"},"devices":{"disks":[{"name":"pvc","disk":{"bus":"virtio"}}]}},
    "volumes":[{"name":"pvc","hostDisk":{"path":"/x/disk.img","type":"DiskOrCreate","capacity":"1Gi"}}]},
    "status":{"changedBlockTracking":{"state":"STATE"},"volumeStatus":[{"name":"pvc","target":"vda",
      "persistentVolumeClaimInfo":{"filesystemOverhead":"0.055","capacity":{"storage":"2Gi"},"requests":{"storage":"1Gi"}}}]}}"#;

#[test]
fn image_size_is_limited_by_claim_and_file_system() {
    let vmi = Vmi::from_json(VMI_WITH_CLAIM.replace("STATE", "Disabled").as_bytes()).unwrap();
    let spec = crate::convert::convert(&vmi, &Options::default(), &HostFacts::default()).unwrap();
    let expansions = image_expansions(&vmi, &HostFacts::default(), &spec);
    let [expansion] = expansions.as_slice() else {
        panic!("{expansions:?}")
    };
    assert_eq!(
        (expansion.capacity, expansion.format.as_str()),
        (1 << 30, "raw")
    );
    assert_eq!(
        live_expansions(&vmi, &HostFacts::default(), &spec),
        [LiveExpansion::File(expansion.clone())]
    );
    assert_eq!(
        expansion.size(None),
        Some(967 * MIB),
        "1 GiB without 5.5 %, rounded down to mebibytes"
    );
    assert_eq!(expansion.size(Some(100 * MIB)), Some(94 * MIB));
    assert_eq!(expansion.size(Some(MIB)), None);
    assert_eq!(expansion.size(Some(u64::MAX)), expansion.size(None));
    let without_overhead = ImageExpansion {
        overhead: 0.0,
        ..expansion.clone()
    };
    assert_eq!(without_overhead.size(None), Some(1 << 30));
}

#[test]
fn block_devices_are_expanded_only_while_the_vm_runs() {
    const BLOCK: &str = r#"{"name":"pvc","target":"vda","persistentVolumeClaimInfo":{"volumeMode":"Block",
      "capacity":{"storage":"2Gi"}}}"#;
    let mut vmi: serde_json::Value = serde_json::from_str(VMI_WITH_CLAIM).unwrap();
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
    assert_eq!(
        live_expansions(&vmi, &HostFacts::default(), &spec),
        [device]
    );
    assert_eq!(image_expansions(&vmi, &HostFacts::default(), &spec), []);
}
