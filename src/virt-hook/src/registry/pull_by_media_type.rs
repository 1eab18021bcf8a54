//! The hooks of an image in a registry, by the three families of media types.

use anyhow::anyhow;
use hook_host::printable;
use image_layout::{Digest, WASM_CONFIG, WASM_LAYER};
use oci_registry::{Client, Manifest, Reference};
use serde_json::Value as Json;

use super::manifest_blobs::{blob, digest_of, layers};
use super::pull_from_image_files::image_hooks;
use super::pulled_hook::{MAX_PRINTED, MAX_TEXT, PulledHook};
use super::{INDEXES, failure};
use crate::exit_codes::Failure;
use crate::image::{SIGNATURE_ANNOTATION, is_hook_name};
use crate::interactive_compile;

/// The older artifacts: one layer, the module.
const OLD_CONFIG: &str = "application/vnd.wasm.config.v1+json";
const OLD_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
const IMAGE_CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
const WASM_MAGIC: &[u8] = b"\0asm";

/// What was pulled.
pub(super) struct PulledHooks {
    /// Of what the reference names.
    pub(super) digest: Digest,
    pub(super) kind: &'static str,
    pub(super) hooks: Vec<PulledHook>,
}

/// Pulls the hooks of an image. Modules are the same for all platforms, so the first of an index is taken.
pub(super) fn pull_hooks(
    client: &mut Client,
    reference: &Reference,
) -> Result<PulledHooks, Failure> {
    let named = client.manifest(reference).map_err(failure)?;
    let digest = named.digest.clone();
    let manifest = match is_index(&named.json) {
        true => {
            let first = digest_of(&named.json["manifests"][0]["digest"])?;
            client.manifest_by_digest(&first).map_err(failure)?
        }
        false => named,
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
    Ok(PulledHooks {
        digest,
        kind,
        hooks,
    })
}

/// The member `mediaType` is optional (image-spec, "OCI Image Index Specification").
fn is_index(manifest: &Json) -> bool {
    match manifest["mediaType"].as_str() {
        Some(media_type) => INDEXES.contains(&media_type),
        None => manifest["manifests"].is_array(),
    }
}

/// Files were checked for their size before they were read, but not the annotation with a signature.
fn check(reference: &Reference, hook: &PulledHook) -> Result<(), Failure> {
    let name = printable(&hook.name, MAX_PRINTED);
    let refused = |reason: &str| Failure::refused(anyhow!("{reference}: {name}: {reason}"));
    if !is_hook_name(&hook.name) {
        return Err(refused("no name of a hook: a-z, 0-9 and -"));
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
        module: blob(client, layer, interactive_compile::limits().module as u64)?,
        hook_yaml: None,
        signature: signature.map(str::to_owned),
    })
}
