//! `spec.volumes`. Each volume has exactly one source.

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
    /// A disk image in a container image.
    pub container_disk: Option<ContainerDisk>,
    /// An empty disk, which is deleted with the VM.
    pub empty_disk: Option<EmptyDisk>,
    /// cloud-init data for the data source NoCloud.
    pub cloud_init_no_cloud: Option<CloudInit>,
    /// cloud-init data for the data source ConfigDrive.
    pub cloud_init_config_drive: Option<CloudInit>,
    /// A disk image on the node.
    pub host_disk: Option<HostDisk>,
    /// A PersistentVolumeClaim.
    pub persistent_volume_claim: Option<Claim>,
    /// A DataVolume, whose PersistentVolumeClaim CDI creates.
    pub data_volume: Option<DataVolume>,
    /// A temporary copy-on-write layer over a PersistentVolumeClaim.
    pub ephemeral: Option<Ephemeral>,
    /// A ConfigMap as a disk.
    pub config_map: Option<ConfigVolume>,
    /// A Secret as a disk.
    pub secret: Option<ConfigVolume>,
    /// Pod fields (downward API) as a disk.
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<ConfigVolume>,
    /// The service account as a disk.
    pub service_account: Option<Value>,
    /// Windows' sysprep files as a disk.
    pub sysprep: Option<Value>,
    /// The host's metrics as a disk.
    pub downward_metrics: Option<Value>,
    /// A PersistentVolumeClaim for memory dumps, which is not a disk.
    pub memory_dump: Option<Value>,
}

impl Volume {
    /// Whether the volume can be attached and detached while the guest runs.
    #[must_use]
    pub fn is_hotpluggable(&self) -> bool {
        let container = self.container_disk.as_ref();
        let claim = self.persistent_volume_claim.as_ref();
        let data = self.data_volume.as_ref();
        container.is_some_and(|container| container.hotpluggable)
            || claim.is_some_and(|claim| claim.hotpluggable)
            || data.is_some_and(|data| data.hotpluggable)
    }
}

/// A disk image in a container image.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerDisk {
    /// The container image.
    #[serde(deserialize_with = "null_as_default")]
    pub image: String,
    /// Path of the disk image in the container image.
    #[serde(deserialize_with = "null_as_default")]
    pub path: String,
    /// Whether the disk is attached while the guest runs.
    #[serde(deserialize_with = "null_as_default")]
    pub hotpluggable: bool,
}

/// An empty disk.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EmptyDisk {
    /// The size of the disk.
    pub capacity: Option<Quantity>,
}

/// cloud-init data: as text, in base64, or in a Secret.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudInit {
    /// The Secret with the user data.
    #[serde(rename = "secretRef")]
    pub user_data_secret_ref: Option<SecretReference>,
    /// User data in base64.
    #[serde(deserialize_with = "null_as_default")]
    pub user_data_base64: String,
    /// User data.
    #[serde(deserialize_with = "null_as_default")]
    pub user_data: String,
    /// The Secret with the network data.
    pub network_data_secret_ref: Option<SecretReference>,
    /// Network data in base64.
    #[serde(deserialize_with = "null_as_default")]
    pub network_data_base64: String,
    /// Network data.
    #[serde(deserialize_with = "null_as_default")]
    pub network_data: String,
}

/// A reference to a Secret.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    /// The name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
}

/// A disk image on the node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostDisk {
    /// Path on the node.
    #[serde(deserialize_with = "null_as_default")]
    pub path: String,
    /// `Disk` or `DiskOrCreate`.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub kind: String,
    /// The size of an image that is created.
    pub capacity: Option<Quantity>,
    /// Whether several guests may use the image at once.
    pub shared: Option<bool>,
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Claim {
    /// The claim's name.
    #[serde(deserialize_with = "null_as_default")]
    pub claim_name: String,
    /// Whether the guest cannot write.
    #[serde(deserialize_with = "null_as_default")]
    pub read_only: bool,
    /// Whether the volume is attached while the guest runs.
    #[serde(deserialize_with = "null_as_default")]
    pub hotpluggable: bool,
}

/// A DataVolume, whose PersistentVolumeClaim CDI creates.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataVolume {
    /// The name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Whether the volume is attached while the guest runs.
    #[serde(deserialize_with = "null_as_default")]
    pub hotpluggable: bool,
}

/// A temporary copy-on-write layer over a PersistentVolumeClaim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ephemeral {
    /// The claim.
    #[serde(rename = "persistentVolumeClaim")]
    pub claim: Option<Claim>,
}

/// A ConfigMap, Secret or pod fields as a disk.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigVolume {
    /// Name of the ConfigMap.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Label of the file system.
    #[serde(deserialize_with = "null_as_default")]
    pub volume_label: String,
}
