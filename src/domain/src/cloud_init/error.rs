//! Errors of reading cloud-init data.

/// Why cloud-init data cannot be read from a VMI and its secrets.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CloudInitError {
    /// The volume has neither user data nor network data.
    #[error(
        "volume {volume}: userDataBase64, userData, networkDataBase64 or networkData is required for a cloud-init data source{hint}"
    )]
    Empty {
        /// The volume.
        volume: String,
        /// Why a secret has no data, if the VMI refers to one; else empty.
        hint: String,
    },
    /// The value of a base64 field is not base64.
    #[error("volume {volume}: {field} is not base64: {message}")]
    Base64 {
        /// The volume.
        volume: String,
        /// The field's name in the VMI.
        field: &'static str,
        /// The decoder's message.
        message: String,
    },
    /// The VMI refers to secrets for user data and for network data, and neither can be read.
    #[error("no cloud-init data-source found at volume: {volume} ({message})")]
    Secret {
        /// The volume.
        volume: String,
        /// Why the secrets could not be read.
        message: String,
    },
    /// A secret of SSH keys cannot be read.
    #[error("access credential secret {secret}: {message}")]
    AccessCredential {
        /// The secret's name.
        secret: String,
        /// Why the secret could not be read.
        message: String,
    },
    /// There is neither user data nor network data for an image.
    #[error("UserData or NetworkData is required for cloud-init data source")]
    NoFiles,
}
