//! The output of hooks as cloud-init data.

use std::borrow::Cow;

use serde_json::error::Category;

use crate::cloud_init::cloud_init_data::CloudInitData;

/// The maximum size of JSON from hooks, in bytes.
pub const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;

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

impl CloudInitData {
    /// The data after the hooks. Hooks get bytes that are not UTF-8 as text with replacement characters; the bytes are
    /// kept if the hooks did not change that text.
    ///
    /// # Errors
    /// [`HookOutputError`] if the JSON is too large, is not a `CloudInitData`, or lacks metadata or user data.
    pub fn merge_hook_output(&self, json: &str) -> Result<Self, HookOutputError> {
        if json.len() > MAX_JSON_BYTES {
            return Err(HookOutputError::TooLarge(json.len()));
        }
        let mut hooked: Self = serde_json::from_str(json)?;
        restore_bytes(&self.user_data, &mut hooked.user_data);
        restore_bytes(&self.network_data, &mut hooked.network_data);
        let has_meta_data =
            hooked.no_cloud_meta_data.is_some() || hooked.config_drive_meta_data.is_some();
        // Network data alone is valid in a VMI, so hooks need not add user data.
        let has_user_data = !hooked.user_data.is_empty() || self.user_data.is_empty();
        if has_meta_data && has_user_data {
            Ok(hooked)
        } else {
            Err(HookOutputError::Incomplete)
        }
    }
}

/// Replaces `after` by `before` if `after` is the lossy text of `before`, which is not UTF-8.
fn restore_bytes(before: &[u8], after: &mut Vec<u8>) {
    if let Cow::Owned(text) = String::from_utf8_lossy(before)
        && text.as_bytes() == after.as_slice()
    {
        *after = before.to_vec();
    }
}
