//! The hooks of an image in a registry, by the three families of media types.

use std::collections::BTreeMap;

use anyhow::anyhow;
use hook_host::printable;
use image_layout::{WASM_CONFIG, WASM_LAYER, files_of_layer};
use oci_registry::{Client, Digest, Manifest, Reference};
use serde_json::Value as Json;
use sigstore_bundle::SUFFIX;

use super::connection::MAX_BLOB;
use super::{INDEXES, failure};
use crate::compile_progress;
use crate::exit::Failure;
use crate::image::{HOOK_YAML, MODULE, SIGNATURE_ANNOTATION, is_hook_name};

/// The older artifacts: one layer, the module.
const OLD_CONFIG: &str = "application/vnd.wasm.config.v1+json";
const OLD_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
const IMAGE_CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
/// The most layers and hooks of an image.
const MAX_LAYERS: usize = 64;
const MAX_HOOKS: usize = 64;
/// The largest hook.yaml and signature in bytes.
const MAX_TEXT: usize = 256 << 10;
const WASM_MAGIC: &[u8] = b"\0asm";
const MAX_PRINTED: usize = 200;

/// What was pulled.
pub(super) struct Pulled {
    /// Of what the reference names.
    pub(super) digest: Digest,
    pub(super) kind: &'static str,
    pub(super) hooks: Vec<PulledHook>,
}

/// A hook of an image.
pub(super) struct PulledHook {
    pub(super) name: String,
    pub(super) module: Vec<u8>,
    pub(super) hook_yaml: Option<Vec<u8>>,
    pub(super) signature: Option<String>,
}

/// Pulls the hooks of an image. Modules are the same for all platforms, so the first of an index is taken.
pub(super) fn pull_hooks(client: &mut Client, reference: &Reference) -> Result<Pulled, Failure> {
    let named = client.manifest(reference).map_err(failure)?;
    let digest = named.digest.clone();
    let manifest = match named.json["mediaType"].as_str() {
        Some(media_type) if INDEXES.contains(&media_type) => {
            let first = &named.json["manifests"][0]["digest"];
            client
                .manifest_by_digest(&digest_of(first)?)
                .map_err(failure)?
        }
        _ => named,
    };
    let family = manifest.json["config"]["mediaType"]
        .as_str()
        .unwrap_or_default();
    let (kind, hooks) = match family {
        WASM_CONFIG => (
            "wasm artifact",
            vec![artifact(client, reference, &manifest, WASM_LAYER)?],
        ),
        OLD_CONFIG => (
            "old wasm artifact",
            vec![artifact(client, reference, &manifest, OLD_LAYER)?],
        ),
        image if IMAGE_CONFIGS.contains(&image) => ("image", image_hooks(client, &manifest)?),
        other => {
            return Err(Failure::refused(anyhow!(
                "{reference}: it is of the type {}, and neither an image nor a wasm artifact",
                printable(other, MAX_PRINTED)
            )));
        }
    };
    for hook in &hooks {
        check(reference, hook)?;
    }
    Ok(Pulled {
        digest,
        kind,
        hooks,
    })
}

fn check(reference: &Reference, hook: &PulledHook) -> Result<(), Failure> {
    let name = printable(&hook.name, MAX_PRINTED);
    let refused = |reason: &str| Failure::refused(anyhow!("{reference}: {name}: {reason}"));
    let limit = compile_progress::limits().module;
    let texts = [
        hook.hook_yaml.as_ref().map(Vec::len),
        hook.signature.as_ref().map(String::len),
    ];
    if !is_hook_name(&hook.name) {
        return Err(refused("no name of a hook: a-z, 0-9 and -"));
    }
    if !hook.module.starts_with(WASM_MAGIC) {
        return Err(refused("its module is no WebAssembly"));
    }
    if hook.module.len() > limit {
        return Err(refused("its module is larger than any that is loaded"));
    }
    if texts.into_iter().flatten().any(|size| size > MAX_TEXT) {
        return Err(refused("its hook.yaml or signature is too large"));
    }
    Ok(())
}

fn layers(manifest: &Manifest) -> &[Json] {
    manifest.json["layers"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

fn blob(client: &mut Client, descriptor: &Json) -> Result<Vec<u8>, Failure> {
    let size = descriptor["size"].as_u64().unwrap_or_default();
    let digest = digest_of(&descriptor["digest"])?;
    client.blob(&digest, size).map_err(failure)
}

fn digest_of(value: &Json) -> Result<Digest, Failure> {
    let digest = value.as_str().unwrap_or_default().parse();
    digest.map_err(|reason: String| Failure::refused(anyhow!("the manifest is wrong: {reason}")))
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
    let found = layer["mediaType"].as_str().unwrap_or_default();
    if found != media_type {
        return Err(Failure::refused(anyhow!(
            "{reference}: its layer is of the type {}, not {media_type}",
            printable(found, MAX_PRINTED)
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
        module: blob(client, layer)?,
        hook_yaml: None,
        signature: signature.map(str::to_owned),
    })
}

/// The hooks of an ordinary image: a directory each. A file of a later layer replaces one of an earlier.
fn image_hooks(client: &mut Client, manifest: &Manifest) -> Result<Vec<PulledHook>, Failure> {
    if layers(manifest).len() > MAX_LAYERS {
        return Err(Failure::refused(anyhow!(
            "the image has more than {MAX_LAYERS} layers"
        )));
    }
    let wanted = [
        MODULE.to_owned(),
        HOOK_YAML.to_owned(),
        format!("{MODULE}{SUFFIX}"),
    ];
    let mut hooks: BTreeMap<String, [Option<Vec<u8>>; 3]> = BTreeMap::new();
    for layer in layers(manifest) {
        let content = blob(client, layer)?;
        let media_type = layer["mediaType"].as_str().unwrap_or_default();
        let split = |path: &str| -> Option<(String, usize)> {
            let (directory, file) = path.split_once('/')?;
            let index = wanted.iter().position(|name| name == file)?;
            Some((directory.to_owned(), index))
        };
        let files = files_of_layer(&content, media_type, MAX_BLOB, |path| split(path).is_some());
        for (path, content) in files.map_err(Failure::refused)? {
            if let Some((directory, index)) = split(&path) {
                hooks.entry(directory).or_default()[index] = Some(content);
            }
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
    if hooks.is_empty() || hooks.len() > MAX_HOOKS {
        return Err(Failure::refused(anyhow!(
            "the image has {} hooks: 1 to {MAX_HOOKS} directories with {MODULE} are wanted",
            hooks.len()
        )));
    }
    Ok(hooks)
}
