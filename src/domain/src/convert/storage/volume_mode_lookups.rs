//! Lists claims whose volume mode (block device or file system) must be looked up in the pod before the conversion.

use kubevirt_api::vmi::{BLOCK, Vmi, Volume};

use crate::convert::storage::volume_paths;

/// A claim to look up in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeModeLookup {
    /// Name of the volume, which is the entry in
    /// [`HostFacts::block_volumes`](crate::host_facts::HostFacts::block_volumes) or
    /// [`HostFacts::image_volumes`](crate::host_facts::HostFacts::image_volumes).
    pub volume: String,
    /// The path of the volume in the pod if it is a block device.
    pub block_path: String,
    /// The path of the volume's image if it is not a block device. Set only if the VMI's status reports a block device.
    pub image_path: Option<String>,
}

/// The claims that have to be looked up before [`crate::convert::convert`]. The VMI's status has no mode of the claim
/// below an ephemeral volume, and none for a standalone VM. During a migration to other claims, it has the modes of the
/// target's claims, which are not in the source's pod.
pub fn volume_mode_lookups(vmi: &Vmi) -> Vec<VolumeModeLookup> {
    let claims = vmi.spec.volumes.iter().filter(|volume| is_claim(volume));
    claims
        .map(|volume| {
            let name = &volume.name;
            let status = vmi.volume_status(name);
            let is_hotplugged = status.is_some_and(|status| status.hotplug_volume.is_some());
            let is_block = status.and_then(|status| status.volume_mode()) == Some(BLOCK);
            VolumeModeLookup {
                volume: name.clone(),
                block_path: volume_paths::block(name, is_hotplugged),
                image_path: is_block.then(|| volume_paths::file(name, is_hotplugged)),
            }
        })
        .collect()
}

fn is_claim(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some()
        || volume.data_volume.is_some()
        || volume.ephemeral.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_listed_with_their_paths() {
        let vmi = r#"{"metadata":{"name":"vm"},"spec":{"volumes":[
            {"name":"known","persistentVolumeClaim":{"claimName":"a"}},
            {"name":"layer","ephemeral":{"persistentVolumeClaim":{"claimName":"b"}}},
            {"name":"made","dataVolume":{"name":"c"}},
            {"name":"plugged","persistentVolumeClaim":{"claimName":"d"}},
            {"name":"empty","emptyDisk":{"capacity":"1Gi"}}]},
            "status":{"volumeStatus":[{"name":"known","persistentVolumeClaimInfo":{"volumeMode":"Filesystem"}},
              {"name":"layer"},
              {"name":"made","persistentVolumeClaimInfo":{"volumeMode":"Block"}},
              {"name":"plugged","hotplugVolume":{},"persistentVolumeClaimInfo":{"volumeMode":"Block"}}]}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let claims = volume_mode_lookups(&vmi);
        let paths: Vec<_> = claims
            .iter()
            .map(|claim| (claim.block_path.as_str(), claim.image_path.as_deref()))
            .collect();
        assert_eq!(
            paths,
            [
                ("/dev/known", None),
                ("/dev/layer", None),
                (
                    "/dev/made",
                    Some("/var/run/kubevirt-private/vmi-disks/made/disk.img")
                ),
                (
                    "/var/run/kubevirt/hotplug-disks/plugged",
                    Some("/var/run/kubevirt/hotplug-disks/plugged.img")
                ),
            ]
        );
    }
}
