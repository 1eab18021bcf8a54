//! `virt-hook pull`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use hook_host::policy::module_signature;
use hook_host::printable;
use image_layout::{Digest, ImageFiles, WASM_CONFIG, WASM_LAYER, sha256};
use oci_registry::{Client, Manifest, Reference};
use serde::Serialize;
use serde_json::Value as Json;
use sigstore_bundle::{Bundle, PublicKey, SUFFIX};

use super::{
    INDEX_MEDIA_TYPES, MAX_BLOB, MAX_PRINTED, MAX_TEXT, RegistryOptions, blob, layers,
    parse_digest, reference, registry_failure,
};
use crate::interactive_compile;
use crate::output::{Report, Style};
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;
use crate::verbs::image::{HOOK_YAML, MODULE_FILE, SIGNATURE_ANNOTATION, is_hook_name};
use crate::verbs::signature;

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
        .map(|path| signature::key(path, PublicKey::from_pem))
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

/// A hook of an image or artifact.
pub(super) struct PulledHook {
    pub(super) name: String,
    pub(super) module: Vec<u8>,
    pub(super) hook_yaml: Option<Vec<u8>>,
    pub(super) signature: Option<String>,
}

/// A pulled image or artifact.
pub(super) struct PulledImage {
    /// The digest of the manifest or index that the reference names.
    pub(super) digest: Digest,
    pub(super) kind: &'static str,
    pub(super) hooks: Vec<PulledHook>,
}

// Pulls the hooks of an image or artifact, in one of three formats that the media type of its configuration tells
// apart.

/// The media types of older wasm artifacts, whose only layer is the module.
const OLD_WASM_CONFIG: &str = "application/vnd.wasm.config.v1+json";
const OLD_WASM_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
const IMAGE_CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
const WASM_MAGIC: &[u8] = b"\0asm";

/// Pulls the hooks. Modules are the same for all platforms, so the first image of an index is taken.
pub(super) fn pull_hooks(
    client: &mut Client,
    reference: &Reference,
) -> Result<PulledImage, Failure> {
    let tagged = client.manifest(reference).map_err(registry_failure)?;
    let digest = tagged.digest.clone();
    let manifest = match is_index(&tagged.json) {
        true => {
            let first = parse_digest(&tagged.json["manifests"][0]["digest"])?;
            client
                .manifest_by_digest(&first)
                .map_err(registry_failure)?
        }
        false => tagged,
    };
    let config_media_type = manifest.json["config"]["mediaType"]
        .as_str()
        .unwrap_or_default();
    let (kind, hooks) = match config_media_type {
        WASM_CONFIG => (
            "wasm artifact",
            vec![artifact(client, reference, &manifest, WASM_LAYER)?],
        ),
        OLD_WASM_CONFIG => (
            "old wasm artifact",
            vec![artifact(client, reference, &manifest, OLD_WASM_LAYER)?],
        ),
        image if IMAGE_CONFIGS.contains(&image) => ("image", image_hooks(client, &manifest)?),
        other => {
            return Err(Failure::refused(anyhow!(
                "{reference}: its type is {}, neither an image nor a wasm artifact",
                printable(other, MAX_PRINTED)
            )));
        }
    };
    for hook in &hooks {
        check_hook(reference, hook)?;
    }
    Ok(PulledImage {
        digest,
        kind,
        hooks,
    })
}

/// Whether a manifest is an index. The member `mediaType` is optional (image-spec, "OCI Image Index Specification").
fn is_index(manifest: &Json) -> bool {
    match manifest["mediaType"].as_str() {
        Some(media_type) => INDEX_MEDIA_TYPES.contains(&media_type),
        None => manifest["manifests"].is_array(),
    }
}

/// Checks a pulled hook. The sizes of files were checked before they were read, but not that of an annotation with a
/// signature.
fn check_hook(reference: &Reference, hook: &PulledHook) -> Result<(), Failure> {
    let name = printable(&hook.name, MAX_PRINTED);
    let refused = |reason: &str| Failure::refused(anyhow!("{reference}: {name}: {reason}"));
    if !is_hook_name(&hook.name) {
        return Err(refused("not a name of a hook: a-z, 0-9 and -"));
    }
    if !hook.module.starts_with(WASM_MAGIC) {
        return Err(refused("its module is not WebAssembly"));
    }
    let signature = hook.signature.as_ref().map_or(0, String::len);
    if signature as u64 > MAX_TEXT {
        return Err(refused("its signature is too large"));
    }
    Ok(())
}

fn artifact(
    client: &mut Client,
    reference: &Reference,
    manifest: &Manifest,
    media_type: &str,
) -> Result<PulledHook, Failure> {
    let [layer] = layers(manifest) else {
        return Err(Failure::refused(anyhow!(
            "{reference}: a wasm artifact has one layer, and this one has {}",
            layers(manifest).len()
        )));
    };
    let layer_type = layer["mediaType"].as_str().unwrap_or_default();
    if layer_type != media_type {
        return Err(Failure::refused(anyhow!(
            "{reference}: its layer is of the type {}, not {media_type}",
            printable(layer_type, MAX_PRINTED)
        )));
    }
    let name = reference
        .repository()
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let signature = manifest.json["annotations"][SIGNATURE_ANNOTATION].as_str();
    Ok(PulledHook {
        // Repositories may have dots and underscores.
        name: name.replace(['.', '_'], "-"),
        module: blob(client, layer, interactive_compile::max_module() as u64)?,
        hook_yaml: None,
        signature: signature.map(str::to_owned),
    })
}

/// Maximum number of layers of an image.
const MAX_LAYERS: usize = 64;
/// Maximum number of hooks of an image.
const MAX_HOOKS: usize = 64;
/// Maximum size of all unpacked layers together, in bytes.
const MAX_UNPACKED: u64 = MAX_BLOB;

/// A file of a hook.
enum HookFile {
    Module,
    Settings,
    Signature,
}

impl HookFile {
    /// The hook's directory and the kind of its file, if the path is that of a hook's file.
    fn parse(path: &str) -> Option<(&str, Self)> {
        let (directory, file) = path.split_once('/')?;
        let file = match file {
            MODULE_FILE => Self::Module,
            HOOK_YAML => Self::Settings,
            other if other.strip_prefix(MODULE_FILE) == Some(SUFFIX) => Self::Signature,
            _ => return None,
        };
        Some((directory, file))
    }

    /// Maximum size of the file in bytes.
    fn limit(&self) -> u64 {
        match self {
            Self::Module => interactive_compile::max_module() as u64,
            Self::Settings | Self::Signature => MAX_TEXT,
        }
    }
}

/// Pulls the layers one after the other, and keeps only the files of hooks.
pub(super) fn image_hooks(
    client: &mut Client,
    manifest: &Manifest,
) -> Result<Vec<PulledHook>, Failure> {
    if layers(manifest).len() > MAX_LAYERS {
        return Err(Failure::refused(anyhow!(
            "the image has more than {MAX_LAYERS} layers"
        )));
    }
    let limit_of = |path: &str| Some(HookFile::parse(path)?.1.limit());
    let mut files = ImageFiles::new(MAX_UNPACKED, limit_of);
    for layer in layers(manifest) {
        let content = blob(client, layer, MAX_BLOB)?;
        let media_type = layer["mediaType"].as_str().unwrap_or_default();
        let added = files.add_layer(&content, media_type);
        added.map_err(Failure::refused)?;
        check_names(files.paths())?;
    }
    hooks_of(files.into_files())
}

/// Checks the names and the number of hooks, before further layers are pulled.
fn check_names<'a>(paths: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let directories = paths.filter_map(|path| Some(HookFile::parse(path)?.0));
    let directories: BTreeSet<&str> = directories.collect();
    if let Some(name) = directories.iter().find(|name| !is_hook_name(name)) {
        let name = printable(name, MAX_PRINTED);
        return Err(Failure::refused(anyhow!(
            "{name}: not a name of a hook: a-z, 0-9 and -"
        )));
    }
    match directories.len() > MAX_HOOKS {
        true => Err(Failure::refused(anyhow!(
            "the image has more than {MAX_HOOKS} hooks"
        ))),
        false => Ok(()),
    }
}

fn hooks_of(files: BTreeMap<String, Vec<u8>>) -> Result<Vec<PulledHook>, Failure> {
    let mut hooks: BTreeMap<String, [Option<Vec<u8>>; 3]> = BTreeMap::new();
    for (path, content) in files {
        if let Some((directory, file)) = HookFile::parse(&path) {
            hooks.entry(directory.to_owned()).or_default()[file as usize] = Some(content);
        }
    }
    let hooks = hooks
        .into_iter()
        .filter_map(|(name, [module, hook_yaml, signature])| {
            let signature = signature.map(|text| String::from_utf8_lossy(&text).into_owned());
            Some(PulledHook {
                name,
                module: module?,
                hook_yaml,
                signature,
            })
        });
    let hooks: Vec<_> = hooks.collect();
    match hooks.is_empty() {
        true => Err(Failure::refused(anyhow!(
            "the image has 0 hooks: each needs a directory with {MODULE_FILE}"
        ))),
        false => Ok(hooks),
    }
}
