//! `virt-hook push`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use image_layout::{Digest, ImageError, StoredLayout, sha256};
use oci_registry::{Client, MAX_MANIFEST};
use serde::Serialize;
use serde_json::Value as Json;

use super::limits::MAX_BLOB;
use super::registry_options::{RegistryOptions, reference};
use super::{INDEX_MEDIA_TYPES, registry_failure};
use crate::output::{Report, Style};
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  virt-hook image smbios.wasm --out layout
  virt-hook push layout registry.example/hooks:1

Exit codes:
  0  the registry has the image
  1  the registry refused the image, or its answer is invalid; standard error says why
  2  invalid command line, or an unusable layout
  3  error of this machine, or the registry is unreachable or did not answer in time";

/// The depth of indexes: an index has images and no further indexes.
const MAX_DEPTH: usize = 1;

/// Arguments of `virt-hook push`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The layout that `virt-hook image` wrote
    layout: PathBuf,
    /// The image's name, with the registry: registry.example/hooks:1
    reference: String,
    #[command(flatten)]
    connection: RegistryOptions,
}

/// An image that was pushed.
#[derive(Debug, Serialize)]
pub(crate) struct PushReport {
    /// The reference with the digest.
    reference: String,
    digest: Digest,
    /// Number of blobs that the registry did not have.
    uploaded: usize,
    /// Number of blobs that the registry had already.
    present: usize,
}

/// Uploads the blobs that the registry does not have, then the manifests.
pub(crate) fn run(arguments: &Arguments) -> Result<PushReport, Failure> {
    let reference = reference(&arguments.reference)?;
    let layout = StoredLayout::open(&arguments.layout).map_err(unusable)?;
    let image = layout.image();
    let bytes = layout.blob(image, MAX_MANIFEST).map_err(unusable)?;
    let digest = sha256(&bytes);
    if reference.digest().is_some_and(|pinned| *pinned != digest) {
        return Err(Failure::usage(anyhow!(
            "{reference}: the layout's image has the digest {digest}"
        )));
    }
    let mut push = Push {
        layout: &layout,
        client: arguments.connection.client(&reference, true)?,
        present_digests: BTreeSet::new(),
        uploaded: 0,
        present: 0,
    };
    let name = reference.tag().unwrap_or(digest.as_str());
    push.image(image, &bytes, name, 0)?;
    Ok(PushReport {
        reference: reference.pinned(&digest),
        uploaded: push.uploaded,
        present: push.present,
        digest,
    })
}

struct Push<'a> {
    layout: &'a StoredLayout,
    client: Client,
    /// The digests of the blobs that the registry has now: images of an index share their layers.
    present_digests: BTreeSet<String>,
    uploaded: usize,
    present: usize,
}

impl Push<'_> {
    /// Pushes an image or index under a name: a tag or digest.
    fn image(
        &mut self,
        descriptor: &Json,
        bytes: &[u8],
        name: &str,
        depth: usize,
    ) -> Result<(), Failure> {
        let manifest: Json = serde_json::from_slice(bytes).map_err(Failure::usage)?;
        let media_type = descriptor["mediaType"].as_str().unwrap_or_default();
        let list = |name: &str| manifest[name].as_array().cloned().unwrap_or_default();
        if INDEX_MEDIA_TYPES.contains(&media_type) {
            if depth == MAX_DEPTH {
                return Err(Failure::usage(anyhow!(
                    "an index of indexes cannot be pushed"
                )));
            }
            for image in list("manifests") {
                let digest = image["digest"].as_str().unwrap_or_default();
                let bytes = self.layout.blob(&image, MAX_MANIFEST).map_err(unusable)?;
                self.image(&image, &bytes, digest, depth + 1)?;
            }
        } else {
            for blob in [manifest["config"].clone()]
                .into_iter()
                .chain(list("layers"))
            {
                self.blob(&blob)?;
            }
        }
        let pushed = self.client.push_manifest(name, media_type, bytes);
        pushed.map(drop).map_err(registry_failure)
    }

    fn blob(&mut self, descriptor: &Json) -> Result<(), Failure> {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        if !self.present_digests.insert(digest.to_owned()) {
            return Ok(());
        }
        let content = self.layout.blob(descriptor, MAX_BLOB).map_err(unusable)?;
        match self.client.push_blob(&content).map_err(registry_failure)? {
            true => self.uploaded += 1,
            false => self.present += 1,
        }
        Ok(())
    }
}

fn unusable(error: ImageError) -> Failure {
    Failure::usage(error)
}

impl Report for PushReport {
    fn text(&self, _: Style) -> String {
        let (uploaded, present) = (self.uploaded, self.present);
        format!(
            "{} ({uploaded} blobs uploaded, {present} there already)",
            self.reference
        )
    }
}
