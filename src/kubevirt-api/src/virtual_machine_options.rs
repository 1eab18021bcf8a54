//! `VirtualMachineOptions`, which virt-handler sends with a VMI, with its proto-JSON names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `VirtualMachineOptions`: cluster-wide settings and node facts for one VMI.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// SMBIOS system data.
    #[serde(
        rename = "VirtualMachineSMBios",
        skip_serializing_if = "Option::is_none"
    )]
    pub smbios: Option<Smbios>,
    /// Seconds between two collections of balloon statistics; 0 for none.
    #[serde(rename = "MemBalloonStatsPeriod")]
    pub mem_balloon_stats_period: u32,
    /// Volumes whose images are fully allocated.
    #[serde(rename = "PreallocatedVolumes")]
    pub preallocated_volumes: Vec<String>,
    /// The node's NUMA topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Facts about disk images, by volume name.
    #[serde(rename = "DisksInfo")]
    pub disks_info: BTreeMap<String, DiskInfo>,
    /// Expand disks with their volumes. Older clusters send it here, newer ones in the cluster configuration.
    #[serde(rename = "ExpandDisksEnabled")]
    pub expand_disks_enabled: bool,
    /// Cluster-wide settings.
    #[serde(rename = "clusterConfig", skip_serializing_if = "Option::is_none")]
    pub cluster_config: Option<ClusterConfig>,
    /// How the domain attaches to an interface (`tap`, `managedTap`, ...), by interface name.
    #[serde(rename = "interfaceDomainAttachment")]
    pub interface_domain_attachment: BTreeMap<String, String>,
    /// How an interface's binding migrates, by interface name.
    #[serde(rename = "interfaceMigration")]
    pub interface_migration: BTreeMap<String, InterfaceBindingMigration>,
    /// The JSON of KubeVirt's plugins in base64, as proto-JSON encodes it.
    #[serde(rename = "pluginsJson")]
    pub plugins_json: String,
    /// Aliases of the host devices that Grace IO virtualization applies to.
    #[serde(rename = "GraceHostDeviceAliases")]
    pub grace_host_device_aliases: Vec<String>,
}

/// SMBIOS system data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Smbios {
    /// Manufacturer.
    pub manufacturer: String,
    /// Product name.
    pub product: String,
    /// Version.
    pub version: String,
    /// SKU.
    pub sku: String,
    /// Family.
    pub family: String,
}

/// Cluster-wide settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
#[allow(clippy::struct_excessive_bools)]
pub struct ClusterConfig {
    /// Expand disks with their volumes.
    pub expand_disks_enabled: bool,
    /// Do not let guests report free pages.
    pub free_page_reporting_disabled: bool,
    /// Give UEFI guests a bochs display.
    #[serde(rename = "BochsDisplayForEFIGuests")]
    pub bochs_display_for_efi_guests: bool,
    /// Do not log the serial console.
    pub serial_console_log_disabled: bool,
    /// Place PCI devices by NUMA node.
    #[serde(rename = "PCINUMAAwareTopologyEnabled")]
    pub pci_numa_aware_topology_enabled: bool,
    /// Allow live migration of vGPUs.
    #[serde(rename = "VGPULiveMigrationEnabled")]
    pub vgpu_live_migration_enabled: bool,
    /// Enable Grace IO virtualization.
    #[serde(rename = "GraceIOVirtualizationEnabled")]
    pub grace_io_virtualization_enabled: bool,
}

/// The node's NUMA topology.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// NUMA cells.
    pub numa_cells: Vec<Cell>,
}

/// One NUMA cell of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// Cell id.
    pub id: u32,
    /// The cell's memory.
    pub memory: Option<MemoryAmount>,
    /// The cell's pages by size.
    pub pages: Vec<Pages>,
    /// Distances to all cells.
    pub distances: Vec<Sibling>,
    /// The cell's CPUs.
    pub cpus: Vec<Cpu>,
}

/// An amount of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryAmount {
    /// The amount in `unit`.
    pub amount: u64,
    /// libvirt's unit, such as `KiB`.
    pub unit: String,
}

/// Pages of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pages {
    /// The number of pages.
    pub count: u64,
    /// Unit of `size`.
    pub unit: String,
    /// Size of one page.
    pub size: u32,
}

/// The distance to a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sibling {
    /// Cell id.
    pub id: u32,
    /// Distance.
    pub value: u64,
}

/// A CPU and its hyper-thread siblings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// CPU id.
    pub id: u32,
    /// Ids of the siblings, including this CPU's.
    pub siblings: Vec<u32>,
}

/// Facts about a disk image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DiskInfo {
    /// `qcow2` or `raw`.
    pub format: String,
    /// Backing file, if any.
    pub backing_file: String,
    /// Allocated bytes.
    pub actual_size: u64,
    /// The size that the guest sees, in bytes.
    pub virtual_size: u64,
}

/// How an interface binding migrates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceBindingMigration {
    /// The method's name.
    #[serde(rename = "Method")]
    pub method: String,
}

impl Options {
    /// The cluster configuration; all settings are off if none was sent.
    pub fn cluster(&self) -> ClusterConfig {
        self.cluster_config.clone().unwrap_or_default()
    }
}
