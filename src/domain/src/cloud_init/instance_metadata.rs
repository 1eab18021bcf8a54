//! The metadata of an instance: NoCloud's meta-data and ConfigDrive's meta_data.json, with tagged devices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// NoCloud's meta-data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct NoCloudMetadata {
    /// Name of the instance type.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_type: String,
    /// Identity of the instance. cloud-init runs again when it changes.
    pub instance_id: String,
    /// Host name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub local_hostname: String,
    /// SSH public keys, by number.
    #[serde(
        rename = "public-keys",
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "kubevirt_api::vmi::null_as_default"
    )]
    pub public_ssh_keys: BTreeMap<String, String>,
}

/// ConfigDrive's meta_data.json.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigDriveMetadata {
    /// Name of the instance type.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_type: String,
    /// `NAME.NAMESPACE`.
    pub instance_id: String,
    /// Host name; KubeVirt leaves it empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub local_hostname: String,
    /// Host name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Identity of the instance. cloud-init runs again when it changes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    /// Tagged devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<DeviceData>>,
    /// SSH public keys, by number.
    #[serde(
        rename = "public_keys",
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "kubevirt_api::vmi::null_as_default"
    )]
    pub public_ssh_keys: BTreeMap<String, String>,
}

/// A tagged device, by which the guest finds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceData {
    /// `nic` or `hostdev`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `pci`.
    pub bus: String,
    /// `0000:01:00.0`.
    pub address: String,
    /// MAC address, if an interface has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// Serial number; KubeVirt sets none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Host NUMA node; node 0 is not written, as in KubeVirt.
    #[serde(rename = "numaNode", skip_serializing_if = "is_zero")]
    pub numa_node: u32,
    /// vCPUs that are pinned to the device's NUMA node.
    #[serde(
        rename = "alignedCPUs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "kubevirt_api::vmi::null_as_default"
    )]
    pub aligned_cpus: Vec<u32>,
    /// The VMI's tag.
    #[serde(deserialize_with = "kubevirt_api::vmi::null_as_default")]
    pub tags: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &u32) -> bool {
    *number == 0
}
