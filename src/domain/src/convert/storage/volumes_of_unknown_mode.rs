//! Volumes whose mode (block device or file system) the cluster does not report.

use kubevirt_api::vmi::{Vmi, Volume};

use crate::convert::storage::volume_paths;

/// A volume whose mode the cluster does not report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeOfUnknownMode {
    /// Name of the volume; the entry in [`crate::host_facts::HostFacts::block_volumes`].
    pub volume: String,
    /// Its path in the pod if it is a block device.
    pub block_path: String,
}

/// The volumes that have to be looked up before [`crate::convert::convert`]: virt-controller reports the mode of claims
/// and DataVolumes only, and nobody reports any to a standalone VM.
pub fn volumes_of_unknown_mode(vmi: &Vmi) -> Vec<VolumeOfUnknownMode> {
    let volumes = vmi.spec.volumes.iter();
    let unreported = volumes.filter(|volume| {
        let status = vmi.volume_status(&volume.name);
        is_claim(volume) && status.is_none_or(|status| status.volume_mode().is_none())
    });
    unreported
        .map(|volume| {
            let status = vmi.volume_status(&volume.name);
            let is_hotplugged = status.is_some_and(|status| status.hotplug_volume.is_some());
            VolumeOfUnknownMode {
                volume: volume.name.clone(),
                block_path: volume_paths::block(&volume.name, is_hotplugged),
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn volumes_without_a_reported_mode_are_listed() {
        let vmi = r#"{"metadata":{"name":"vm"},"spec":{"volumes":[
            {"name":"known","persistentVolumeClaim":{"claimName":"a"}},
            {"name":"layer","ephemeral":{"persistentVolumeClaim":{"claimName":"b"}}},
            {"name":"made","dataVolume":{"name":"c"}},
            {"name":"plugged","persistentVolumeClaim":{"claimName":"d"}},
            {"name":"empty","emptyDisk":{"capacity":"1Gi"}}]},
            "status":{"volumeStatus":[{"name":"known","persistentVolumeClaimInfo":{"volumeMode":"Filesystem"}},
              {"name":"layer"},{"name":"plugged","hotplugVolume":{}}]}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        let volumes = volumes_of_unknown_mode(&vmi);
        let paths: Vec<_> = volumes
            .iter()
            .map(|volume| volume.block_path.as_str())
            .collect();
        assert_eq!(
            paths,
            [
                "/dev/layer",
                "/dev/made",
                "/var/run/kubevirt/hotplug-disks/plugged"
            ]
        );
    }
}
