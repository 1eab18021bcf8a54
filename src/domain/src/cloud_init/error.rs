//! Why cloud-init data cannot be read.

/// Why cloud-init data cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CloudInitError {
    /// Neither user data nor network data.
    #[error(
        "volume {volume}: userDataBase64, userData, networkDataBase64 or networkData is required for a cloud-init data source{hint}"
    )]
    Empty {
        /// The volume.
        volume: String,
        /// Why a secret has no data, if the VMI refers to one; else empty.
        hint: String,
    },
    /// A field that should be base64 is not.
    #[error("volume {volume}: {field} is not base64: {message}")]
    Base64 {
        /// The volume.
        volume: String,
        /// The field's name in the VMI.
        field: &'static str,
        /// The decoder's message.
        message: String,
    },
    /// Neither of the two secrets that the VMI refers to can be read.
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
    /// There are no data to make an image of.
    #[error("UserData or NetworkData is required for cloud-init data source")]
    NoFiles,
}
