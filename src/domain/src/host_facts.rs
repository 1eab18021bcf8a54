//! Host facts: facts about the node and the launcher's container that conversion needs.

use std::collections::{BTreeMap, BTreeSet};

use kubevirt_api::vmi::{BLOCK, VolumeStatus};
use serde::{Deserialize, Serialize};

use crate::kubevirt_version::{Behaviour, KubeVirtVersion};

/// Facts that the launcher collects before it converts a VMI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostFacts {
    /// The cluster's KubeVirt: `1.8`, `1.9` or `1.10`.
    #[serde(rename = "kubevirtVersion")]
    pub kubevirt_version: KubeVirtVersion,
    /// The architecture as Go names it: `amd64`, `arm64`, `s390x`.
    pub architecture: String,
    /// Whether to fall back to emulation if there is no KVM (`--allow-emulation`).
    pub allow_emulation: bool,
    /// Whether to emulate guests of another architecture than the node's (`--allow-cross-arch-emulation`).
    pub allow_cross_arch_emulation: bool,
    /// Names of QEMU's programs in `/usr/bin`, such as `qemu-system-aarch64`; `None` if unknown.
    pub emulators: Option<Vec<String>>,
    /// Whether the device of `hypervisor` (`/dev/kvm` for `kvm`, `/dev/mshv` for `hyperv-direct`) can be used.
    pub kvm_available: bool,
    /// `kvm` or `hyperv-direct` (`--hypervisor`).
    pub hypervisor: String,
    /// The host CPUs that the pod may use.
    pub cpuset: Vec<u32>,
    /// The directory of UEFI firmware (`--ovmf-path`).
    pub ovmf_path: String,
    /// The root directory of ephemeral disks (`--ephemeral-disk-dir`).
    pub ephemeral_disk_dir: String,
    /// The root directory of container disks (`--container-disk-dir`).
    pub container_disk_dir: String,
    /// Format of container disk images, `qcow2` or `raw`.
    pub container_disk_format: String,
    /// Whether files and block devices can be opened with O_DIRECT.
    #[serde(rename = "directIO")]
    pub direct_io: bool,
    /// Names of the files in `ovmf_path`; `None` if unknown, in which case the default names are used.
    pub firmware_files: Option<Vec<String>>,
    /// Whether libvirt chooses firmware with secure boot (`--firmware-auto-selection`).
    pub firmware_auto_selection: bool,
    /// Environment variables of device plugins: those that start with `PCI_RESOURCE_`,
    /// `MDEV_PCI_RESOURCE_` or `USB_RESOURCE_`. Values are addresses separated by commas.
    pub device_plugins: BTreeMap<String, String>,
    /// The content of /etc/podinfo/network-info; `None` if there is no such file.
    pub network_info: Option<NetworkInfo>,
    /// Devices of resource claims: by claim name in `spec.resourceClaims`, then by request.
    pub claimed_devices: BTreeMap<String, BTreeMap<String, ClaimedDevice>>,
    /// NUMA node by PCI address (`/sys/bus/pci/devices/ADDRESS/numa_node`), without devices that have none.
    pub device_numa_nodes: BTreeMap<String, u32>,
    /// CPUs by NUMA node (`/sys/bus/node/devices/nodeN/cpulist`).
    pub numa_cpus: BTreeMap<u32, Vec<u32>>,
    /// The volumes among [`crate::convert::volume_mode_lookups`] that are block devices in the pod.
    pub block_volumes: BTreeSet<String>,
    /// The volumes among [`crate::convert::volume_mode_lookups`] that are images in the pod, although the VMI's status
    /// reports block devices.
    pub image_volumes: BTreeSet<String>,
    /// Block sizes of the volumes from [`crate::convert::block_size_lookups`], by path.
    pub block_sizes: BTreeMap<String, BlockSizes>,
    /// Why block sizes are unknown, by path.
    pub block_size_problems: BTreeMap<String, String>,
    /// Whether the launcher edits the domain of an incoming migration (`--libvirt-hook-server-and-client`).
    pub serves_migration_hook: bool,
    /// `VIRT_LAUNCHER_LOG_VERBOSITY`; above 5, messages of the firmware are logged too.
    pub log_verbosity: u32,
    /// Whether a device plugin provides an iommufd.
    pub iommufd: bool,
    /// The content of `/proc/sys/net/vsock/ns_mode`, `global` or `local`; `None` where the kernel has no such file.
    pub vsock_ns_mode: Option<String>,
}

/// The pod's interfaces, as the cluster describes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkInfo {
    /// One interface for each network.
    pub interfaces: Vec<NetworkInterface>,
}

/// One of the pod's interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Name of the network in the VMI.
    pub network: String,
    /// The device behind the interface.
    pub device_info: Option<DeviceInfo>,
}

/// A network device, as the Network Plumbing Working Group describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceInfo {
    /// Present for a PCI device.
    pub pci: Option<PciDevice>,
}

/// A PCI device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PciDevice {
    /// The address, such as `0000:65:00.2`.
    #[serde(rename = "pci-address")]
    pub address: String,
}

/// The device of a request in a resource claim, from the attributes that its driver publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimedDevice {
    /// `pciBusID`, such as `0000:65:00.2`.
    #[serde(rename = "pciBusID")]
    pub pci_address: String,
    /// `mdevUUID` of a mediated device.
    #[serde(rename = "mdevUUID")]
    pub mdev_uuid: String,
    /// Why neither address nor UUID is known; empty if one is.
    pub problem: String,
}

/// Block sizes in bytes, as the kernel reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockSizes {
    /// `BLKSSZGET`; for a file `f_bsize` of its file system.
    pub logical: u64,
    /// `BLKPBSZGET`; for a file `f_bsize` of its file system.
    pub physical: u64,
    /// `queue/discard_granularity`, 0 when unknown; for a file `f_bsize` of its file system.
    pub discard_granularity: u64,
}

impl HostFacts {
    pub(crate) fn behaviour(&self) -> Behaviour {
        Behaviour::of(self.kubevirt_version)
    }

    /// Whether a volume is a block device: as found in the pod, else by the VMI's status.
    pub(crate) fn is_block(&self, volume: &str, status: Option<&VolumeStatus>) -> bool {
        let is_reported = || status.and_then(|status| status.volume_mode()) == Some(BLOCK);
        self.block_volumes.contains(volume)
            || (!self.image_volumes.contains(volume) && is_reported())
    }
}

impl Default for HostFacts {
    fn default() -> Self {
        Self {
            kubevirt_version: KubeVirtVersion::default(),
            architecture: "amd64".into(),
            allow_emulation: false,
            allow_cross_arch_emulation: false,
            emulators: None,
            kvm_available: true,
            hypervisor: "kvm".into(),
            cpuset: Vec::new(),
            ovmf_path: "/usr/share/edk2/ovmf".into(),
            ephemeral_disk_dir: "/var/run/kubevirt-ephemeral-disks".into(),
            container_disk_dir: "/var/run/kubevirt/container-disks".into(),
            container_disk_format: "qcow2".into(),
            direct_io: true,
            firmware_files: None,
            firmware_auto_selection: false,
            device_plugins: BTreeMap::new(),
            network_info: None,
            claimed_devices: BTreeMap::new(),
            device_numa_nodes: BTreeMap::new(),
            numa_cpus: BTreeMap::new(),
            block_volumes: BTreeSet::new(),
            image_volumes: BTreeSet::new(),
            block_sizes: BTreeMap::new(),
            block_size_problems: BTreeMap::new(),
            serves_migration_hook: true,
            log_verbosity: 0,
            iommufd: false,
            vsock_ns_mode: None,
        }
    }
}

/// Converts Rust's name of an architecture (the constant `ARCH`) to Go's, which Kubernetes uses.
#[must_use]
pub fn go_architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
