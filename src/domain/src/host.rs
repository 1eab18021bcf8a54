//! What conversion must know about the node and the pod.

use serde::{Deserialize, Serialize};

/// Facts the launcher probes before it converts a VMI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostFacts {
    /// Go's name of the architecture: `amd64`, `arm64`, `s390x`.
    pub architecture: String,
    /// Fall back to emulation when there is no KVM (`--allow-emulation`).
    pub allow_emulation: bool,
    /// /dev/kvm can be used.
    pub kvm_available: bool,
    /// Host processors the pod may use.
    pub cpuset: Vec<u32>,
    /// Where UEFI firmware lies (`--ovmf-path`).
    pub ovmf_path: String,
    /// Root of the ephemeral disks (`--ephemeral-disk-dir`).
    pub ephemeral_disk_dir: String,
    /// Root of the container disks (`--container-disk-dir`).
    pub container_disk_dir: String,
    /// Format of container disk images, `qcow2` or `raw`.
    pub container_disk_format: String,
    /// Files and block devices can be opened with O_DIRECT.
    #[serde(rename = "directIO")]
    pub direct_io: bool,
}

impl Default for HostFacts {
    fn default() -> Self {
        Self {
            architecture: "amd64".into(),
            allow_emulation: false,
            kvm_available: true,
            cpuset: Vec::new(),
            ovmf_path: "/usr/share/edk2/ovmf".into(),
            ephemeral_disk_dir: "/var/run/kubevirt-ephemeral-disks".into(),
            container_disk_dir: "/var/run/kubevirt/container-disks".into(),
            container_disk_format: "qcow2".into(),
            direct_io: true,
        }
    }
}
