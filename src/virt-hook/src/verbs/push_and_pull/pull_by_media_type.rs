//! Pulls the hooks of an image or artifact, in one of three formats that the media type of its configuration tells
//! apart.

use anyhow::anyhow;
use hook_host::printable;
use image_layout::{WASM_CONFIG, WASM_LAYER};
use oci_registry::{Client, Manifest, Reference};
use serde_json::Value as Json;

use super::limits::{MAX_PRINTED, MAX_TEXT};
use super::manifest_blobs::{blob, layers, parse_digest};
use super::pull_from_image_files::image_hooks;
use super::pulled_image::{PulledHook, PulledImage};
use super::{INDEX_MEDIA_TYPES, registry_failure};
use crate::interactive_compile;
use crate::verb_failure::Failure;
use crate::verbs::image::{SIGNATURE_ANNOTATION, is_hook_name};

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
