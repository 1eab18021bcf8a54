//! The files of a cloud-init image.

use serde::Serialize;

use crate::cloud_init::cloud_init_data::{CloudInitData, DataSource};
use crate::cloud_init::error::CloudInitError;
use crate::cloud_init::instance_metadata::ConfigDriveMetadata;

/// One file of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsoFile {
    /// Path in the image, without a leading slash.
    pub path: &'static str,
    /// Content.
    pub content: Vec<u8>,
}

/// The files of the image. There is no file for empty network data, but an empty file for empty user data.
///
/// # Errors
/// [`CloudInitError::NoFiles`] if there is neither user data nor network data.
pub fn files(data: &CloudInitData) -> Result<Vec<IsoFile>, CloudInitError> {
    if data.user_data.is_empty() && data.network_data.is_empty() {
        return Err(CloudInitError::NoFiles);
    }
    let ([meta, user, network], meta_data) = match data.data_source {
        DataSource::NoCloud => (
            ["meta-data", "user-data", "network-config"],
            json(&data.no_cloud_meta_data.clone().unwrap_or_default()),
        ),
        DataSource::ConfigDrive => (
            [
                "openstack/latest/meta_data.json",
                "openstack/latest/user_data",
                "openstack/latest/network_data.json",
            ],
            json(&ConfigDriveMetadata {
                devices: data.devices_data.clone(),
                ..data.config_drive_meta_data.clone().unwrap_or_default()
            }),
        ),
    };
    let mut files = vec![
        IsoFile {
            path: meta,
            content: meta_data,
        },
        IsoFile {
            path: user,
            content: data.user_data.clone(),
        },
    ];
    if !data.network_data.is_empty() {
        files.push(IsoFile {
            path: network,
            content: data.network_data.clone(),
        });
    }
    Ok(files)
}

/// The JSON of metadata. Serialization cannot fail: the values are strings, numbers and maps with string keys.
fn json(meta_data: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(meta_data).unwrap_or_default()
}
