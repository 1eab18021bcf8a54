//! `virt-hook verify`.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use hook_host::policy::module_signature;
use hook_host::{SigningDate, SigningDateError};
use serde::Serialize;
use sigstore_bundle::{Bundle, MAX_BUNDLE, PublicKey};

use super::{key, module_bytes};
use crate::inputs::input_file;
use crate::output::{Report, Style};
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Verifies without network, as launchers do, and ignores entries of transparency logs. Also verifies
bundles of `cosign sign-blob --key`; docs/signatures.md has the flags.

Examples:
  virt-hook verify smbios.wasm --key hooks.pub
  virt-hook verify smbios.wasm --key hooks.pub --bundle smbios.bundle

Exit codes:
  0  one of the keys signed the module
  1  the module is not signed, not signed by one of the keys, or was changed; standard error says which
  2  invalid command line, or an unusable file";

/// Arguments of `virt-hook verify`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    module: PathBuf,
    /// A public key (ECDSA P-256, PEM). May be repeated; one key that verifies is enough
    #[arg(long = "key", value_name = "FILE", required = true)]
    keys: Vec<PathBuf>,
    /// The signature [default: MODULE.sigstore.json]
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

/// A valid signature.
#[derive(Debug, Serialize)]
pub(crate) struct VerifyReport {
    module: PathBuf,
    signature: PathBuf,
    /// The file of the key that signed the module.
    key: PathBuf,
    /// The date in the module, which `virt-hook sign --dated` writes.
    #[serde(rename = "signedAt")]
    signed_at: Option<String>,
    /// What is odd about the date: it cannot be read, or is later than this machine's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// Verifies the signature with the first key that fits.
pub(crate) fn run(arguments: &Arguments) -> Result<VerifyReport, Failure> {
    let keys = arguments.keys.iter();
    let keys: Vec<PublicKey> = keys
        .map(|path| key(path, PublicKey::from_pem))
        .collect::<Result<_, _>>()?;
    let content = module_bytes(&arguments.module)?;
    let bundle = arguments.bundle.clone();
    let signature = bundle.unwrap_or_else(|| module_signature::path_of(&arguments.module));
    if arguments.bundle.is_none() && signature.symlink_metadata().is_err() {
        return Err(Failure::refused(anyhow!(
            "{}: it is not signed: there is no {}, which `virt-hook sign` writes",
            arguments.module.display(),
            signature.display()
        )));
    }
    let context = || input_file::name(&signature);
    let text = input_file::text(&signature, MAX_BUNDLE)?;
    let signer = Bundle::parse(&text)
        .map_err(anyhow::Error::new)
        .and_then(|bundle| Ok(bundle.signer(&content, &keys)?));
    let signer = signer.with_context(context).map_err(Failure::Refused)?;
    let (date, warning) = match SigningDate::of(&content) {
        Ok(date) => {
            let is_in_future = date.is_some_and(|date| date > SigningDate::now());
            let text = "later than now: an earlier notBefore does not withdraw it";
            (date, is_in_future.then(|| text.to_owned()))
        }
        // Any file can have a signature.
        Err(SigningDateError::Incomplete) => (None, None),
        // Policies without notBefore accept it.
        Err(error) => (
            None,
            Some(format!("without a date that can be read: {error}")),
        ),
    };
    Ok(VerifyReport {
        module: arguments.module.clone(),
        signature,
        key: arguments.keys[signer].clone(),
        signed_at: date.map(|date| date.to_string()),
        warning,
    })
}

impl Report for VerifyReport {
    fn text(&self, _: Style) -> String {
        let date = self.signed_at.iter().map(|date| format!(", dated {date}"));
        let warning = self.warning.iter().map(|warning| format!(", {warning}"));
        let date: String = date.chain(warning).collect();
        format!(
            "{}: signed by {}{date}",
            self.module.display(),
            self.key.display()
        )
    }
}
