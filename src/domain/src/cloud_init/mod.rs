//! cloud-init: what a VMI asks for, as KubeVirt's `CloudInitData`, and the files of the image that
//! carries it into the guest.
//!
//! ```text
//! VMI + secrets ─ read ─▶ CloudInitData ─ hooks (JSON) ─▶ with_hooked ─┐
//! defined domain ─ devices::metadata ─▶ devices_data ──────────────────┴─ files ─▶ image
//! ```
//!
//! Rules as in KubeVirt v1.9's pkg/cloud-init.

mod data;
pub mod devices;
mod files;
mod read;

pub use data::{
    CloudInitData, ConfigDriveMetadata, DataSource, DeviceData, HookedDataError, MAX_JSON_BYTES,
    NoCloudMetadata,
};
pub use files::{IsoFile, files};
pub use read::{NoSecrets, SecretSource, read};

/// Why cloud-init data cannot be had.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CloudInitError {
    /// Neither user data nor network data.
    #[error(
        "volume {volume}: userDataBase64, userData, networkDataBase64 or networkData is required for a cloud-init data source{hint}"
    )]
    Empty {
        /// The volume.
        volume: String,
        /// Why a secret gave nothing, when one was asked for; else empty.
        hint: String,
    },
    /// A field that should be base64 is not.
    #[error("volume {volume}: {field} is not base64: {message}")]
    Base64 {
        /// The volume.
        volume: String,
        /// The field's name in the VMI.
        field: &'static str,
        /// What the decoder says.
        message: String,
    },
    /// Both secrets that were asked for have nothing to read.
    #[error("no cloud-init data-source found at volume: {volume} ({message})")]
    Secret {
        /// The volume.
        volume: String,
        /// Why the secret could not be read.
        message: String,
    },
    /// A secret of SSH keys cannot be read.
    #[error("access credential secret {secret}: {message}")]
    AccessCredential {
        /// The secret's name.
        secret: String,
        /// Why it could not be read.
        message: String,
    },
    /// The data goes into an image as files, and there are none.
    #[error("UserData or NetworkData is required for cloud-init data source")]
    NoFiles,
}

#[cfg(test)]
mod tests;
