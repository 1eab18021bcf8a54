//! What virt-handler sends along with a VMI: `VirtualMachineOptions`, by its proto-JSON names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Cluster-wide settings and node facts for one VMI.
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
    /// Images by volume name.
    #[serde(rename = "DisksInfo")]
    pub disks_info: BTreeMap<String, DiskInfo>,
    /// Grow disks with their volumes (older place of the same field in the cluster configuration).
    #[serde(rename = "ExpandDisksEnabled")]
    pub expand_disks_enabled: bool,
    /// Cluster-wide switches.
    #[serde(rename = "clusterConfig", skip_serializing_if = "Option::is_none")]
    pub cluster_config: Option<ClusterConfig>,
    /// Interface name to how the domain attaches to it (`tap`, `managedTap`, ...).
    #[serde(rename = "interfaceDomainAttachment")]
    pub interface_domain_attachment: BTreeMap<String, String>,
    /// Interface name to how its binding migrates.
    #[serde(rename = "interfaceMigration")]
    pub interface_migration: BTreeMap<String, InterfaceBindingMigration>,
    /// KubeVirt's Plugins, JSON (base64 in proto-JSON, kept as it came).
    #[serde(rename = "pluginsJson")]
    pub plugins_json: String,
    /// Host devices placed for Grace IO virtualization.
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

/// Cluster-wide switches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
#[allow(clippy::struct_excessive_bools)]
pub struct ClusterConfig {
    /// Grow disks with their volumes.
    pub expand_disks_enabled: bool,
    /// Do not let guests report free pages.
    pub free_page_reporting_disabled: bool,
    /// UEFI guests get a bochs display.
    #[serde(rename = "BochsDisplayForEFIGuests")]
    pub bochs_display_for_efi_guests: bool,
    /// Do not log the serial console.
    pub serial_console_log_disabled: bool,
    /// Place PCI devices by NUMA node.
    #[serde(rename = "PCINUMAAwareTopologyEnabled")]
    pub pci_numa_aware_topology_enabled: bool,
    /// Live migration of vGPUs.
    #[serde(rename = "VGPULiveMigrationEnabled")]
    pub vgpu_live_migration_enabled: bool,
    /// Grace IO virtualization.
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
    /// Its memory.
    pub memory: Option<MemoryAmount>,
    /// Its page pools.
    pub pages: Vec<Pages>,
    /// Distances to cells.
    pub distances: Vec<Sibling>,
    /// Its processors.
    pub cpus: Vec<Cpu>,
}

/// An amount of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryAmount {
    /// How much, in `unit`.
    pub amount: u64,
    /// libvirt's unit, such as `KiB`.
    pub unit: String,
}

/// Pages of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pages {
    /// How many.
    pub count: u64,
    /// Unit of `size`.
    pub unit: String,
    /// Size of one page.
    pub size: u32,
}

/// Distance to a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sibling {
    /// Cell id.
    pub id: u32,
    /// Distance.
    pub value: u64,
}

/// A processor and its hyper-thread siblings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Processor id.
    pub id: u32,
    /// Siblings, itself among them.
    pub siblings: Vec<u32>,
}

/// What is known of a disk image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DiskInfo {
    /// `qcow2` or `raw`.
    pub format: String,
    /// Backing file, if any.
    pub backing_file: String,
    /// Bytes allocated.
    pub actual_size: u64,
    /// Bytes the guest sees.
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
    /// The cluster's switches, all off when none were sent.
    pub fn cluster(&self) -> ClusterConfig {
        self.cluster_config.clone().unwrap_or_default()
    }
}
