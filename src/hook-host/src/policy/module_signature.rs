//! The signature beside a module.

use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use sigstore_bundle::{Bundle, KeyId, PublicKey, SUFFIX};

use super::policy_file;
use super::policy_file::PolicyError;
use crate::printable::{MAX_MESSAGE, printable};
use crate::{SigningDate, SigningDateError};

/// The result of verifying a module's signature.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModuleSignature {
    signer: Option<Signer>,
    /// Why there is no signer; empty if there is one.
    reason: String,
}

/// The key that signed a module, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signer {
    pub(super) key: KeyId,
    /// The date in the signed module, if there is one.
    pub(super) date: Result<Option<SigningDate>, SigningDateError>,
}

impl ModuleSignature {
    /// The key that signed the module.
    pub(super) fn signer(&self) -> Option<&Signer> {
        self.signer.as_ref()
    }

    /// Why the module counts as unsigned.
    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    /// Verifies the signature beside the module `file` in a hook's directory. `path` is the module's
    /// path for errors; `content` are the bytes of the module.
    pub(crate) fn verify(
        dir: &Dir,
        file: &str,
        path: &Path,
        content: &[u8],
        keys: &[&PublicKey],
    ) -> Self {
        let place = path_of(path);
        let verified = match policy_file::read_in(dir, &format!("{file}{SUFFIX}"), &place) {
            Ok(Some(text)) => signer(&text, content, keys)
                .map_err(|reason| format!("{}: {reason}", place.display())),
            Ok(None) => Err(format!(
                "it is not signed: there is no {}, which `virt-hook sign` writes",
                place.display()
            )),
            Err(error) => Err(error.to_string()),
        };
        match verified {
            Ok(key) => Self {
                signer: Some(Signer {
                    key,
                    date: SigningDate::of(content),
                }),
                reason: String::new(),
            },
            Err(reason) => Self::unverified(&reason),
        }
    }

    /// The result for a module without a valid signature.
    pub(crate) fn unverified(reason: &str) -> Self {
        Self {
            signer: None,
            reason: printable(reason, MAX_MESSAGE),
        }
    }
}

/// The path of a module's signature: the module's path with [`SUFFIX`].
#[must_use]
pub fn path_of(module: &Path) -> PathBuf {
    let mut name = module.as_os_str().to_owned();
    name.push(SUFFIX);
    name.into()
}

/// The text of a module's signature; `None` if the file does not exist. The file must be a regular one of limited size,
/// and links are followed within its directory only.
pub fn text(module: &Path) -> Result<Option<String>, PolicyError> {
    policy_file::read_at(&path_of(module))
}

/// The key that made a signature.
fn signer(text: &str, content: &[u8], keys: &[&PublicKey]) -> Result<KeyId, String> {
    let bundle = Bundle::parse(text).map_err(|error| error.to_string())?;
    let signer = bundle.signer(content, keys);
    signer
        .map(|position| keys[position].id())
        .map_err(|error| error.to_string())
}
