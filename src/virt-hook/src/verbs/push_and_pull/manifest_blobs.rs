//! The layers and blobs of an image's manifest.

use anyhow::anyhow;
use image_layout::{Digest, InvalidDigest};
use oci_registry::{Client, Manifest};
use serde_json::Value as Json;

use super::registry_failure;
use crate::verb_failure::Failure;

/// The descriptors of the layers.
pub(super) fn layers(manifest: &Manifest) -> &[Json] {
    manifest.json["layers"]
        .as_array()
        .map_or(&[], Vec::as_slice)
}

/// Pulls a blob of at most `limit` bytes.
pub(super) fn blob(client: &mut Client, descriptor: &Json, limit: u64) -> Result<Vec<u8>, Failure> {
    let size = descriptor["size"].as_u64().unwrap_or_default();
    let digest = parse_digest(&descriptor["digest"])?;
    if size > limit {
        return Err(Failure::refused(anyhow!(
            "{digest}: it has {size} bytes, and the limit is {limit} bytes"
        )));
    }
    client.blob(&digest, size).map_err(registry_failure)
}

/// Parses a digest in the manifest.
pub(super) fn parse_digest(value: &Json) -> Result<Digest, Failure> {
    let digest = value.as_str().unwrap_or_default().parse();
    digest.map_err(|reason: InvalidDigest| {
        Failure::refused(anyhow!("the manifest is wrong: {reason}"))
    })
}
