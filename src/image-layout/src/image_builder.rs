//! Builds an image: layers on top of a base, or without a base.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::base_image::{BaseImage, INDEX, MANIFEST};
use crate::{CompressedLayer, ImageError, Platform, blobs, layout_writer};

/// The media type of compressed layers.
const LAYER_MEDIA_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The media type of configurations.
const CONFIG_MEDIA_TYPE: &str = "application/vnd.oci.image.config.v1+json";

/// An image that is being built.
pub struct Image {
    base: Option<BaseImage>,
    platform: Platform,
    layers: Vec<(CompressedLayer, String)>,
}

impl Image {
    /// An image without a base.
    #[must_use]
    pub fn empty(platform: Platform) -> Self {
        Self {
            base: None,
            platform,
            layers: Vec::new(),
        }
    }

    /// An image on top of a base in an OCI image layout or archive.
    pub fn on(base: &Path, platform: Platform) -> Result<Self, ImageError> {
        let base = Some(BaseImage::read(base, &platform)?);
        Ok(Self {
            base,
            ..Self::empty(platform)
        })
    }

    /// The content of a file in the base's root directory, of at most `limit` bytes; `None` without a base, or if the
    /// base lacks the file. Reads the base's layers, of which large ones take seconds.
    ///
    /// # Errors
    /// [`ImageError::UnreadableLayer`] if a layer cannot be unpacked, or the file is too large or not a regular file.
    pub fn root_file_of_base(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, ImageError> {
        match &self.base {
            Some(base) => base.root_file(name, limit),
            None => Ok(None),
        }
    }

    /// Adds a layer. `created_by` is its entry in the image's history.
    pub fn push(&mut self, layer: CompressedLayer, created_by: &str) {
        self.layers.push((layer, created_by.to_owned()));
    }

    /// Writes a new layout with this image alone, called `name` in it. Returns the manifest's digest.
    pub fn write(&self, layout: &Path, name: &str) -> Result<String, ImageError> {
        layout_writer::write(layout, name, |layout| self.write_blobs(layout))
    }

    /// Writes a new layout with one index, called `name` in it, of the same image for several platforms. Returns the
    /// index's digest.
    pub fn write_index(images: &[Self], layout: &Path, name: &str) -> Result<String, ImageError> {
        layout_writer::write(layout, name, |layout| {
            let manifests = images.iter().map(|image| image.write_blobs(layout));
            let manifests: Vec<Json> = manifests.collect::<Result<_, _>>()?;
            let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
            blobs::write_json(layout, INDEX, &index)
        })
    }

    /// Writes the blobs of this image and returns the manifest's descriptor.
    fn write_blobs(&self, layout: &Path) -> Result<Json, ImageError> {
        let (mut manifest, mut config) = self.manifest_and_config_of_base(layout)?;
        for (CompressedLayer(layer), created_by) in &self.layers {
            blobs::write_once(layout, &layer.digest, &layer.content)?;
            push(
                &mut manifest["layers"],
                json!({"mediaType": LAYER_MEDIA_TYPE, "digest": layer.digest, "size": layer.content.len()}),
            );
            push(&mut config["rootfs"]["diff_ids"], json!(layer.diff_id));
            push(&mut config["history"], json!({"created_by": created_by}));
        }
        manifest["config"] = blobs::write_json(layout, CONFIG_MEDIA_TYPE, &config)?;
        let mut descriptor = blobs::write_json(layout, MANIFEST, &manifest)?;
        descriptor["platform"] =
            json!({"os": self.platform.os, "architecture": self.platform.architecture});
        Ok(descriptor)
    }

    /// The manifest and configuration before our layers are added. Copies the base's layers.
    fn manifest_and_config_of_base(&self, layout: &Path) -> Result<(Json, Json), ImageError> {
        let Some(base) = &self.base else {
            let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": []});
            let config = json!({
                "os": self.platform.os,
                "architecture": self.platform.architecture,
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": []},
            });
            return Ok((manifest, config));
        };
        let layers = base.manifest["layers"].as_array().into_iter().flatten();
        for layer in layers {
            let digest = layer["digest"].as_str().unwrap_or_default();
            blobs::copy(&base.layout, layout, digest)?;
        }
        Ok((base.manifest.clone(), base.config.clone()))
    }
}

/// Appends to a JSON array, which is created if it is absent.
fn push(list: &mut Json, item: Json) {
    match list {
        Json::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}
