//! `virt-hook sign`.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use hook_host::SigningDate;
use hook_host::policy::module_signature;
use serde::Serialize;
use sigstore_bundle::{Bundle, SigningKey};

use super::{DateInModule, key, module_bytes};
use crate::output::{Report, Style};
use crate::output_file;
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
The signature is a Sigstore bundle, MODULE.sigstore.json beside the module. Launchers verify it without
network if the operator's policy names the key. `cosign verify-blob` verifies it too.

--dated writes the time into the module before it signs it, for policies whose key has a `notBefore`. The
module then has another sha256, which the report names: pin, compile and publish that file.

Examples:
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out hooks.key
  openssl pkey -in hooks.key -pubout -out hooks.pub
  virt-hook sign smbios.wasm --key hooks.key
  virt-hook sign smbios.wasm --key hooks.key --dated

Exit codes:
  0  the signatures are written
  2  invalid command line, or an unusable file
  3  a signature could not be written";

/// The first bytes of WebAssembly.
const MAGIC: &[u8] = b"\0asm";

/// Arguments of `virt-hook sign`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A module. May be repeated
    #[arg(value_name = "WASM", required = true)]
    modules: Vec<PathBuf>,
    /// The private key: ECDSA P-256, PEM (PKCS #8, not encrypted); `-` reads standard input
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Write the time of this machine into the module, which is written again, and sign that. A time that the module has
    /// is replaced. A module that is a symbolic link is refused
    #[arg(long)]
    dated: bool,
}

/// The signatures that were written.
#[derive(Debug, Serialize)]
pub(crate) struct SignReport {
    /// The sha256 of the public key, in the form in which bundles have it.
    key: String,
    signatures: Vec<SignatureReport>,
}

#[derive(Debug, Serialize)]
struct SignatureReport {
    module: PathBuf,
    sha256: String,
    signature: PathBuf,
    #[serde(flatten)]
    date: DateInModule,
}

/// Signs the modules one after the other.
pub(crate) fn run(arguments: &Arguments) -> Result<SignReport, Failure> {
    let key = key(&arguments.key, SigningKey::from_pem)?;
    // Before anything is written.
    if arguments.dated {
        for path in &arguments.modules {
            output_file::refuse_link(path).map_err(Failure::Usage)?;
        }
    }
    let signatures = arguments
        .modules
        .iter()
        .map(|path| sign_one(path, &key, arguments.dated));
    Ok(SignReport {
        key: key.public_key().id().to_string(),
        signatures: signatures.collect::<Result<_, _>>()?,
    })
}

fn sign_one(path: &Path, key: &SigningKey, is_dated: bool) -> Result<SignatureReport, Failure> {
    let mut content = module_bytes(path)?;
    if !content.starts_with(MAGIC) {
        return Err(Failure::usage(anyhow!(
            "{}: it is not WebAssembly, and only modules are signed",
            path.display()
        )));
    }
    if is_dated {
        content = SigningDate::now()
            .stamp(&content)
            .with_context(|| path.display().to_string())
            .map_err(Failure::Usage)?;
    }
    let bundle = Bundle::sign(&content, key).map_err(Failure::internal)?;
    let signature = module_signature::path_of(path);
    // The module first: a module without its signature is refused, a signature without its module is of no use.
    if is_dated {
        output_file::rewrite(path, &content).map_err(Failure::Internal)?;
    }
    output_file::write(&signature, bundle.render().as_bytes()).map_err(Failure::Internal)?;
    Ok(SignatureReport {
        module: path.to_owned(),
        sha256: bundle.sha256().unwrap_or_default(),
        signature,
        // What is signed as it is may be dated already.
        date: DateInModule::of(&content),
    })
}

impl Report for SignReport {
    fn text(&self, _: Style) -> String {
        let lines = self.signatures.iter().map(|report| {
            let date = report.date.text();
            let date = date.map_or(String::new(), |date| format!(", {date}"));
            format!(
                "{} (sha256 {}{date})\n",
                report.signature.display(),
                report.sha256
            )
        });
        lines.collect::<String>() + &format!("signed with the key {}\n", self.key)
    }
}
