//! `virt-hook sign` and `virt-hook verify`: signatures beside modules, as Sigstore bundles.

mod sign;
mod verify;

use std::path::Path;

use anyhow::Context;
use hook_host::{SigningDate, SigningDateError};
use serde::Serialize;
use sigstore_bundle::KeyError;

use crate::inputs::input_file;
use crate::interactive_compile;
use crate::verb_failure::Failure;
pub(crate) use sign::{Arguments as SignArguments, HELP as SIGN_HELP, run as sign};
pub(crate) use verify::{Arguments as VerifyArguments, HELP as VERIFY_HELP, run as verify};

/// Maximum size of a key file in bytes.
const MAX_KEY: usize = 64 << 10;

/// Reads a key.
pub(crate) fn key<K>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<K, KeyError>,
) -> Result<K, Failure> {
    parse(&input_file::text(path, MAX_KEY)?)
        .with_context(|| input_file::name(path))
        .map_err(Failure::Usage)
}

/// Reads the bytes of a module, without checking that it is one.
pub(crate) fn module_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    input_file::read(path, interactive_compile::max_module())
}

/// The date of signing in a module, which `virt-hook sign --dated` writes.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DateInModule {
    /// The date, if there is one that can be read.
    #[serde(rename = "signedAt", skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    /// What is odd about the date: it cannot be read, or is later than this machine's time.
    #[serde(rename = "warning", skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

impl DateInModule {
    pub(crate) fn of(content: &[u8]) -> Self {
        match SigningDate::of(content) {
            Ok(date) => {
                let is_in_future = date.is_some_and(|date| date > SigningDate::now());
                let text = "later than now: an earlier notBefore does not withdraw it";
                Self {
                    date: date.map(|date| date.to_string()),
                    warning: is_in_future.then(|| text.to_owned()),
                }
            }
            // Any file can have a signature.
            Err(SigningDateError::Incomplete) => Self::default(),
            // Policies without notBefore accept it.
            Err(error) => Self {
                date: None,
                warning: Some(format!("without a date that can be read: {error}")),
            },
        }
    }

    /// The date and what is odd about it in words; `None` if there is nothing to tell.
    pub(crate) fn text(&self) -> Option<String> {
        let date = self.date.iter().map(|date| format!("dated {date}"));
        let parts: Vec<String> = date.chain(self.warning.clone()).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
