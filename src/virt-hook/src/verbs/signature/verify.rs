//! `virt-hook verify`.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use hook_host::policy::module_signature;
use serde::Serialize;
use sigstore_bundle::{Bundle, MAX_BUNDLE, PublicKey};

use super::{DateInModule, key, module_bytes};
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
    #[serde(flatten)]
    date: DateInModule,
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
    Ok(VerifyReport {
        module: arguments.module.clone(),
        signature,
        key: arguments.keys[signer].clone(),
        date: DateInModule::of(&content),
    })
}

impl Report for VerifyReport {
    fn text(&self, _: Style) -> String {
        let date = self.date.text();
        let date = date.map_or(String::new(), |date| format!(", {date}"));
        format!(
            "{}: signed by {}{date}",
            self.module.display(),
            self.key.display()
        )
    }
}
