//! Errors of reading cloud-init data, and of cloud-init data from hooks.

use serde_json::error::Category;

use crate::cloud_init::cloud_init_data::MAX_JSON_BYTES;

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

/// Why the output of hooks cannot be used as cloud-init data.
#[derive(Debug, thiserror::Error)]
pub enum HookOutputError {
    /// The JSON exceeds [`MAX_JSON_BYTES`].
    #[error("the cloud-init data has {0} bytes, more than the {MAX_JSON_BYTES} that are read")]
    TooLarge(usize),
    /// The JSON is not a `CloudInitData`. serde's message is left out because it contains values, which may be secret.
    #[error(
        "the cloud-init data is not valid CloudInitData: {reason} at line {line} column {column}"
    )]
    Json {
        /// The kind of error.
        reason: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// User data or metadata is missing. KubeVirt checks a hook's output in the same way.
    #[error(
        "the cloud-init data has no UserData, or neither NoCloudMetaData nor ConfigDriveMetaData"
    )]
    Incomplete,
}

impl From<serde_json::Error> for HookOutputError {
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
