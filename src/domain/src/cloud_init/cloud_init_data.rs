//! `CloudInitData`, with KubeVirt's JSON names (Go's field names where Go has no tags).

use kubevirt_api::vmi::Vmi;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cloud_init::instance_identity::{instance_type, instance_uuid};
use crate::cloud_init::instance_metadata::{ConfigDriveMetadata, DeviceData, NoCloudMetadata};

/// cloud-init's data source, which is the kind of image that the guest searches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataSource {
    /// NoCloud: an image labelled `cidata`.
    #[serde(rename = "noCloud")]
    NoCloud,
    /// OpenStack's ConfigDrive: an image labelled `config-2`.
    #[serde(rename = "configDrive")]
    ConfigDrive,
}

impl DataSource {
    /// KubeVirt's name of the data source.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoCloud => "noCloud",
            Self::ConfigDrive => "configDrive",
        }
    }

    /// The volume label by which the guest finds the image.
    pub fn volume_label(self) -> &'static str {
        match self {
            Self::NoCloud => "cidata",
            Self::ConfigDrive => "config-2",
        }
    }
}

/// cloud-init data for either kind of image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CloudInitData {
    /// Kind of image.
    pub data_source: DataSource,
    /// NoCloud's meta-data.
    #[serde(default)]
    pub no_cloud_meta_data: Option<NoCloudMetadata>,
    /// ConfigDrive's meta_data.json.
    #[serde(default)]
    pub config_drive_meta_data: Option<ConfigDriveMetadata>,
    /// User data. Bytes, because cloud-init also accepts gzip; text in JSON.
    #[serde(default, serialize_with = "as_text", deserialize_with = "from_text")]
    pub user_data: Vec<u8>,
    /// Network data. Bytes here and text in JSON, like user data.
    #[serde(default, serialize_with = "as_text", deserialize_with = "from_text")]
    pub network_data: Vec<u8>,
    /// Tagged devices and their addresses, which are known after libvirt has defined the domain.
    #[serde(default)]
    pub devices_data: Option<Vec<DeviceData>>,
    /// The name of the cloud-init volume.
    #[serde(default, deserialize_with = "kubevirt_api::vmi::null_as_default")]
    pub volume_name: String,
}

impl CloudInitData {
    /// The JSON for hooks.
    pub fn to_json(&self) -> String {
        // Never fails: strings, numbers and maps with string keys.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Adds the metadata that the image needs, if a hook removed it.
    pub fn complete(&mut self, vmi: &Vmi) {
        match self.data_source {
            DataSource::NoCloud if self.no_cloud_meta_data.is_none() => {
                self.no_cloud_meta_data = Some(NoCloudMetadata {
                    instance_type: instance_type(vmi),
                    instance_id: instance_uuid(vmi),
                    ..NoCloudMetadata::default()
                });
            }
            DataSource::ConfigDrive if self.config_drive_meta_data.is_none() => {
                self.config_drive_meta_data = Some(ConfigDriveMetadata {
                    instance_type: instance_type(vmi),
                    instance_id: format!("{}.{}", vmi.name(), vmi.namespace()),
                    uuid: instance_uuid(vmi),
                    ..ConfigDriveMetadata::default()
                });
            }
            _ => {}
        }
    }
}

fn as_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?
        .unwrap_or_default()
        .into_bytes())
}
