//! `CloudInitData`, by KubeVirt's JSON names (Go's field names where Go has no tags).

use std::borrow::Cow;
use std::collections::BTreeMap;

use kubevirt_api::vmi::Vmi;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::error::Category;

use crate::cloud_init::instance_identity::{instance_type, instance_uuid};

/// The largest JSON that is accepted from hooks, in bytes.
pub const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;

/// The kind of image that the guest searches for.
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
    /// KubeVirt's word.
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

    /// The image's file name in the VMI's cloud-init directory.
    pub fn iso_name(self) -> &'static str {
        match self {
            Self::NoCloud => "noCloud.iso",
            Self::ConfigDrive => "configdrive.iso",
        }
    }
}

/// cloud-init data, whatever the kind of image.
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
    /// User data. Bytes, since cloud-init takes gzip too; text in JSON.
    #[serde(default, serialize_with = "as_text", deserialize_with = "from_text")]
    pub user_data: Vec<u8>,
    /// Network data. Bytes here and text in JSON, as for user data.
    #[serde(default, serialize_with = "as_text", deserialize_with = "from_text")]
    pub network_data: Vec<u8>,
    /// Tagged devices and their addresses, known once libvirt has defined the domain.
    #[serde(default)]
    pub devices_data: Option<Vec<DeviceData>>,
    /// The volume that shows the image.
    #[serde(default, deserialize_with = "kubevirt_api::vmi::null_as_default")]
    pub volume_name: String,
}

/// NoCloud's meta-data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct NoCloudMetadata {
    /// Name of the instance type.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_type: String,
    /// Identity of the instance: cloud-init runs again when it changes.
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
    /// Identity of the instance: cloud-init runs again when it changes.
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

/// A tagged device: which one it is inside the guest.
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
    /// MAC address, of interfaces that have one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// Serial number; KubeVirt sets none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Host NUMA node; node 0 is not written, as in KubeVirt.
    #[serde(rename = "numaNode", skip_serializing_if = "is_zero")]
    pub numa_node: u32,
    /// Virtual processors on the device's NUMA node.
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

/// Why the output of hooks cannot be used as cloud-init data.
#[derive(Debug, thiserror::Error)]
pub enum HookedDataError {
    /// Beyond [`MAX_JSON_BYTES`].
    #[error("the cloud-init data has {0} bytes, more than the {MAX_JSON_BYTES} that are read")]
    TooLarge(usize),
    /// Not the JSON of a `CloudInitData`. The text of serde's error contains values, which may be secret.
    #[error(
        "the cloud-init data is not valid CloudInitData: {reason} at line {line} column {column}"
    )]
    Json {
        /// The kind of mistake.
        reason: &'static str,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// KubeVirt's own check of a hook's output.
    #[error(
        "the cloud-init data has no UserData, or neither NoCloudMetaData nor ConfigDriveMetaData"
    )]
    Incomplete,
}

impl From<serde_json::Error> for HookedDataError {
    fn from(error: serde_json::Error) -> Self {
        let reason = match error.classify() {
            Category::Data => "a value of another type than expected",
            Category::Eof => "an unexpected end",
            Category::Syntax | Category::Io => "a syntax error",
        };
        Self::Json {
            reason,
            line: error.line(),
            column: error.column(),
        }
    }
}

impl CloudInitData {
    /// The JSON that hooks get.
    pub fn to_json(&self) -> String {
        // Never fails: strings, numbers and maps with string keys.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The data after the hooks. Bytes that are not UTF-8 are kept if the hooks did not change the text in their place.
    ///
    /// # Errors
    /// [`HookedDataError`] when the JSON is too large or not a `CloudInitData`.
    pub fn with_hooked(&self, json: &str) -> Result<Self, HookedDataError> {
        if json.len() > MAX_JSON_BYTES {
            return Err(HookedDataError::TooLarge(json.len()));
        }
        let mut hooked: Self = serde_json::from_str(json)?;
        keep_bytes(&self.user_data, &mut hooked.user_data);
        keep_bytes(&self.network_data, &mut hooked.network_data);
        let has_meta_data =
            hooked.no_cloud_meta_data.is_some() || hooked.config_drive_meta_data.is_some();
        // Network data alone is valid in a VMI, so hooks that do not add user data pass.
        let has_user_data = !hooked.user_data.is_empty() || self.user_data.is_empty();
        if has_meta_data && has_user_data {
            Ok(hooked)
        } else {
            Err(HookedDataError::Incomplete)
        }
    }

    /// Fills in the meta-data that the image needs, in case a hook dropped them.
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

fn keep_bytes(before: &[u8], after: &mut Vec<u8>) {
    if let Cow::Owned(text) = String::from_utf8_lossy(before)
        && text.as_bytes() == after.as_slice()
    {
        *after = before.to_vec();
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

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(number: &u32) -> bool {
    *number == 0
}
