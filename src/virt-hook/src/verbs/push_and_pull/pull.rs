//! `virt-hook pull`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use hook_host::policy::module_signature;
use image_layout::{Digest, sha256};
use serde::Serialize;
use sigstore_bundle::{Bundle, PublicKey};

use super::pull_by_media_type::pull_hooks;
use super::pulled_image::PulledHook;
use super::registry_options::{RegistryOptions, reference};
use crate::output::{Report, Style};
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;
use crate::verbs::sign_and_verify;

pub(crate) const HELP: &str = "\
Pulls ordinary images with a directory per hook, CNCF wasm artifacts, and the older wasm artifacts
(application/vnd.wasm.content.layer.v1+wasm). All digests are verified. A tag can be moved: pin the digest
that is printed.

Examples:
  virt-hook pull registry.example/hooks:1 --into hooks
  virt-hook pull registry.example/hooks@sha256:DIGEST --into hooks --key hooks.pub

Only modules are signed. A hook.yaml is not signed, and can make the launcher ignore a module's veto: with
--key it is accepted only from an image that is pinned by its digest, or with --unsigned-settings.

Exit codes:
  0  the hooks are pulled
  1  the image has no hooks, the key did not sign them, or the registry's answer is invalid
  2  invalid command line, or an unusable file
  3  error of this machine, or the registry is unreachable or did not answer in time";

/// Arguments of `virt-hook pull`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The image, with the registry: registry.example/hooks:1, with or without @sha256:DIGEST
    reference: String,
    /// Directory for the hooks, one sub-directory per hook; created if missing
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// A public key. Every module must be signed by one of the keys, or nothing is written. May be repeated
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// With --key, accept a hook.yaml, which is not signed, from a reference without digest
    #[arg(long, requires = "keys")]
    unsigned_settings: bool,
    #[command(flatten)]
    connection: RegistryOptions,
}

/// Hooks that were pulled.
#[derive(Debug, Serialize)]
pub(crate) struct PullReport {
    /// The reference with the digest.
    reference: String,
    digest: Digest,
    kind: &'static str,
    hooks: Vec<PulledHookReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PulledHookReport {
    module: PathBuf,
    sha256: String,
    bytes: usize,
    signed: bool,
    /// Whether the image had settings, which no signature covers.
    hook_yaml: bool,
}

/// Pulls and checks all hooks, and then writes them.
pub(crate) fn run(arguments: &Arguments) -> Result<PullReport, Failure> {
    let reference = reference(&arguments.reference)?;
    let keys = arguments.keys.iter();
    let keys: Vec<PublicKey> = keys
        .map(|path| sign_and_verify::key(path, PublicKey::from_pem))
        .collect::<Result<_, _>>()?;
    let mut client = arguments.connection.client(&reference, false)?;
    let pulled = pull_hooks(&mut client, &reference)?;
    let accepts_settings =
        keys.is_empty() || arguments.unsigned_settings || reference.digest().is_some();
    for hook in &pulled.hooks {
        check_signature(hook, &keys).map_err(Failure::Refused)?;
        if hook.hook_yaml.is_some() && !accepts_settings {
            return Err(Failure::refused(anyhow!(
                "{}: its hook.yaml is not signed, and decides whether the module can refuse anything: pin the image \
                 by its digest, {}, or give --unsigned-settings",
                hook.name,
                pulled.digest
            )));
        }
        let directory = arguments.into.join(&hook.name);
        if directory.symlink_metadata().is_ok() {
            return Err(Failure::usage(anyhow!(
                "{} exists; name a new directory, or remove it",
                directory.display()
            )));
        }
    }
    Ok(PullReport {
        reference: reference.pinned(&pulled.digest),
        kind: pulled.kind,
        hooks: write(&pulled.hooks, &arguments.into).map_err(Failure::Internal)?,
        digest: pulled.digest,
    })
}

fn check_signature(hook: &PulledHook, keys: &[PublicKey]) -> anyhow::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let signature = hook.signature.as_ref();
    let signature = signature.ok_or_else(|| anyhow!("{}: it is not signed", hook.name))?;
    let context = || format!("the signature of {}", hook.name);
    let bundle = Bundle::parse(signature).with_context(context)?;
    let signer = bundle.signer(&hook.module, keys);
    signer.map(drop).with_context(context)
}

/// Writes the directories of all hooks or, if that fails, of none.
fn write(hooks: &[PulledHook], into: &Path) -> anyhow::Result<Vec<PulledHookReport>> {
    let about = |path: &Path| path.display().to_string();
    fs::create_dir_all(into).with_context(|| about(into))?;
    let staging = TemporaryDirectory::new_in(into, ".arriving-").with_context(|| about(into))?;
    for hook in hooks {
        let directory = staging.path().join(&hook.name);
        write_hook(hook, &directory)?;
    }
    let published = hooks.iter().map(|hook| {
        let target = into.join(&hook.name);
        fs::rename(staging.path().join(&hook.name), &target).with_context(|| about(&target))?;
        Ok(PulledHookReport {
            module: target.join("hook.wasm"),
            sha256: sha256(&hook.module).hex().to_owned(),
            bytes: hook.module.len(),
            signed: hook.signature.is_some(),
            hook_yaml: hook.hook_yaml.is_some(),
        })
    });
    published.collect()
}

fn write_hook(hook: &PulledHook, directory: &Path) -> anyhow::Result<()> {
    let created = fs::create_dir(directory);
    // Whatever the umask: a launcher runs as another user.
    let created =
        created.and_then(|()| fs::set_permissions(directory, fs::Permissions::from_mode(0o755)));
    created.with_context(|| directory.display().to_string())?;
    let module = directory.join("hook.wasm");
    let signature = module_signature::path_of(&module);
    let files = [
        (module, Some(&hook.module[..])),
        (directory.join("hook.yaml"), hook.hook_yaml.as_deref()),
        (signature, hook.signature.as_ref().map(String::as_bytes)),
    ];
    for (path, content) in files {
        if let Some(content) = content {
            fs::write(&path, content).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

impl Report for PullReport {
    fn text(&self, _: Style) -> String {
        let mut text = format!("{} ({})\n", self.reference, self.kind);
        for hook in &self.hooks {
            let signed = if hook.signed { "signed" } else { "not signed" };
            let settings = if hook.hook_yaml {
                ", with hook.yaml"
            } else {
                ""
            };
            text += &format!(
                "  {}: sha256 {}, {} bytes, {signed}{settings}\n",
                hook.module.display(),
                hook.sha256,
                hook.bytes
            );
        }
        text
    }
}
