//! Volumes. Each has exactly one source.

use serde::Deserialize;
use serde_json::Value;

use super::{Quantity, null_as_default};

/// A volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Name, shared with its disk.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// An image in a container.
    pub container_disk: Option<ContainerDisk>,
    /// An empty disk that lives as long as the VM.
    pub empty_disk: Option<EmptyDisk>,
    /// cloud-init, NoCloud.
    pub cloud_init_no_cloud: Option<CloudInit>,
    /// cloud-init, ConfigDrive.
    pub cloud_init_config_drive: Option<CloudInit>,
    /// An image on the node.
    pub host_disk: Option<HostDisk>,
    /// A claim.
    pub persistent_volume_claim: Option<Claim>,
    /// A claim made by CDI.
    pub data_volume: Option<DataVolume>,
    /// A copy-on-write layer over a claim.
    pub ephemeral: Option<Ephemeral>,
    /// A configuration map as a disk.
    pub config_map: Option<ConfigVolume>,
    /// A secret as a disk.
    pub secret: Option<ConfigVolume>,
    /// Pod fields as a disk.
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<ConfigVolume>,
    /// The service account as a disk.
    pub service_account: Option<Value>,
    /// Windows' sysprep files as a disk.
    pub sysprep: Option<Value>,
    /// Metrics as a disk.
    pub downward_metrics: Option<Value>,
    /// A place for memory dumps; no disk.
    pub memory_dump: Option<Value>,
}

/// An image in a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerDisk {
    /// Image.
    #[serde(deserialize_with = "null_as_default")]
    pub image: String,
    /// Path of the disk image in it.
    #[serde(deserialize_with = "null_as_default")]
    pub path: String,
    /// Part of a hotplug request.
    #[serde(deserialize_with = "null_as_default")]
    pub hotpluggable: bool,
}

/// An empty disk.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EmptyDisk {
    /// Its size.
    pub capacity: Option<Quantity>,
}

/// cloud-init data: in place, base64, or in a secret.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudInit {
    /// Secret with the user data.
    #[serde(rename = "secretRef")]
    pub user_data_secret_ref: Option<SecretReference>,
    /// User data, base64.
    #[serde(deserialize_with = "null_as_default")]
    pub user_data_base64: String,
    /// User data.
    #[serde(deserialize_with = "null_as_default")]
    pub user_data: String,
    /// Secret with the network data.
    pub network_data_secret_ref: Option<SecretReference>,
    /// Network data, base64.
    #[serde(deserialize_with = "null_as_default")]
    pub network_data_base64: String,
    /// Network data.
    #[serde(deserialize_with = "null_as_default")]
    pub network_data: String,
}

/// A secret by name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    /// Its name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
}

/// An image on the node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostDisk {
    /// Path on the node.
    #[serde(deserialize_with = "null_as_default")]
    pub path: String,
    /// `Disk` or `DiskOrCreate`.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub kind: String,
    /// Size when created.
    pub capacity: Option<Quantity>,
    /// Several guests may use it at once.
    pub shared: Option<bool>,
}

/// A claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Claim {
    /// Its name.
    #[serde(deserialize_with = "null_as_default")]
    pub claim_name: String,
    /// The guest cannot write.
    #[serde(deserialize_with = "null_as_default")]
    pub read_only: bool,
    /// Attached while the guest runs.
    #[serde(deserialize_with = "null_as_default")]
    pub hotpluggable: bool,
}

/// A claim made by CDI.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataVolume {
    /// Its name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Attached while the guest runs.
    #[serde(deserialize_with = "null_as_default")]
    pub hotpluggable: bool,
}

/// A copy-on-write layer over a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ephemeral {
    /// The claim.
    #[serde(rename = "persistentVolumeClaim")]
    pub claim: Option<Claim>,
}

/// A configuration map, secret or pod fields as a disk.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigVolume {
    /// Name of the configuration map.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Label of the file system.
    #[serde(deserialize_with = "null_as_default")]
    pub volume_label: String,
}
