//! Host facts: what the launcher finds on the node and in its container, and conversion needs.

use std::collections::{BTreeMap, BTreeSet};

use kubevirt_api::vmi::{BLOCK, VolumeStatus};
use serde::{Deserialize, Serialize};

/// Facts the launcher probes before it converts a VMI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostFacts {
    /// Go's name of the architecture: `amd64`, `arm64`, `s390x`.
    pub architecture: String,
    /// Fall back to emulation when there is no KVM (`--allow-emulation`).
    pub allow_emulation: bool,
    /// The device of `hypervisor` (`/dev/kvm` for `kvm`, `/dev/mshv` for `hyperv-direct`) can be used.
    pub kvm_available: bool,
    /// `kvm` or `hyperv-direct` (`--hypervisor`).
    pub hypervisor: String,
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
    /// Names of the files in `ovmf_path`; `None` if unknown, and then the plain names are taken.
    pub firmware_files: Option<Vec<String>>,
    /// Let libvirt choose firmware with secure boot (`--firmware-auto-selection`).
    pub firmware_auto_selection: bool,
    /// Environment variables of device plugins: those that start with `PCI_RESOURCE_`,
    /// `MDEV_PCI_RESOURCE_` or `USB_RESOURCE_`. Values are addresses separated by commas.
    pub device_plugins: BTreeMap<String, String>,
    /// The content of /etc/podinfo/network-info; `None` if there is no such file.
    pub network_info: Option<NetworkInfo>,
    /// Devices of resource claims: by claim name in `spec.resourceClaims`, then by request.
    pub claimed_devices: BTreeMap<String, BTreeMap<String, ClaimedDevice>>,
    /// NUMA node of PCI devices (`/sys/bus/pci/devices/ADDRESS/numa_node`), without those that have none.
    pub device_numa_nodes: BTreeMap<String, u32>,
    /// Processors of NUMA nodes (`/sys/bus/node/devices/nodeN/cpulist`).
    pub numa_cpus: BTreeMap<u32, Vec<u32>>,
    /// The volumes of [`crate::convert::volume_mode_lookups`] that are block devices.
    pub block_volumes: BTreeSet<String>,
    /// The volumes of [`crate::convert::volume_mode_lookups`] that are images, although the VMI's status says block device.
    pub image_volumes: BTreeSet<String>,
    /// Block sizes of the volumes named by [`crate::convert::block_size_lookups`], by path.
    pub block_sizes: BTreeMap<String, BlockSizes>,
    /// Why block sizes are not known, by path.
    pub block_size_problems: BTreeMap<String, String>,
    /// The launcher edits the domain that arrives by a migration (`--libvirt-hook-server-and-client`).
    pub serves_migration_hook: bool,
    /// `VIRT_LAUNCHER_LOG_VERBOSITY`; above 5 firmware is logged too.
    pub log_verbosity: u32,
    /// A device plugin has handed over an iommufd.
    pub iommufd: bool,
}

/// The pod's interfaces as the cluster describes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkInfo {
    /// One for each network.
    pub interfaces: Vec<NetworkInterface>,
}

/// One of the pod's interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Name of the network in the VMI.
    pub network: String,
    /// The device behind it.
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
    /// Such as `0000:65:00.2`.
    #[serde(rename = "pci-address")]
    pub address: String,
}

/// The device of a request, by the attributes that its driver publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimedDevice {
    /// `pciBusID`, such as `0000:65:00.2`.
    #[serde(rename = "pciBusID")]
    pub pci_address: String,
    /// `mdevUUID` of a mediated device.
    #[serde(rename = "mdevUUID")]
    pub mdev_uuid: String,
    /// Why neither is known; empty if one is.
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
    /// Whether a volume is a block device: as the pod has it, else by its status.
    pub(crate) fn is_block(&self, volume: &str, status: Option<&VolumeStatus>) -> bool {
        let is_reported = || status.and_then(|status| status.volume_mode()) == Some(BLOCK);
        self.block_volumes.contains(volume)
            || (!self.image_volumes.contains(volume) && is_reported())
    }
}

impl Default for HostFacts {
    fn default() -> Self {
        Self {
            architecture: "amd64".into(),
            allow_emulation: false,
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
        }
    }
}

/// Go's name of an architecture, which Kubernetes uses, from Rust's, as a program's own constant has it.
#[must_use]
pub fn go_architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
