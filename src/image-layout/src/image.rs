//! An image: a base or nothing, and layers on top.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::base::{Base, MANIFEST};
use crate::{ImageError, Layer, Platform, blobs};

/// The media type of compressed layers.
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The media type of configurations.
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The annotation that names an image of a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// An image that is being made.
pub struct Image {
    base: Option<Base>,
    platform: Platform,
    layers: Vec<(Layer, String)>,
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

    /// An image on top of one in an OCI image layout or archive.
    pub fn on(base: &Path, platform: Platform) -> Result<Self, ImageError> {
        let base = Some(Base::read(base, &platform)?);
        Ok(Self {
            base,
            ..Self::empty(platform)
        })
    }

    /// Adds a layer, with the text that the image's history has for it.
    pub fn push(&mut self, layer: Layer, created_by: &str) {
        self.layers.push((layer, created_by.to_owned()));
    }

    /// Writes a new layout with this image alone, called `name` in it. Returns the manifest's digest.
    pub fn write(&self, layout: &Path, name: &str) -> Result<String, ImageError> {
        if layout.exists() {
            return Err(ImageError::Exists(layout.to_owned()));
        }
        let blobs_dir = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs_dir).map_err(ImageError::io(&blobs_dir))?;
        let (mut manifest, mut config) = self.start(layout)?;
        for (layer, created_by) in &self.layers {
            let written = layer.write().map_err(ImageError::io(layout))?;
            let digest = blobs::write(layout, &written.bytes)?;
            push(
                &mut manifest["layers"],
                json!({"mediaType": LAYER, "digest": digest, "size": written.bytes.len()}),
            );
            push(
                &mut config["rootfs"]["diff_ids"],
                format!("sha256:{}", written.diff_id).into(),
            );
            push(&mut config["history"], json!({"created_by": created_by}));
        }
        manifest["config"] = write_json(layout, CONFIG, &config)?;
        let mut descriptor = write_json(layout, MANIFEST, &manifest)?;
        let digest = descriptor["digest"].as_str().unwrap_or_default().to_owned();
        descriptor["annotations"] = json!({REF_NAME: name});
        descriptor["platform"] =
            json!({"os": self.platform.os, "architecture": self.platform.architecture});
        let index = json!({"schemaVersion": 2, "manifests": [descriptor]});
        write_file(&layout.join("index.json"), &index)?;
        write_file(
            &layout.join("oci-layout"),
            &json!({"imageLayoutVersion": "1.0.0"}),
        )?;
        Ok(digest)
    }

    /// Manifest and configuration before the layers of ours. The base's layers are copied.
    fn start(&self, layout: &Path) -> Result<(Json, Json), ImageError> {
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

/// Appends to a list, which may be absent.
fn push(list: &mut Json, item: Json) {
    match list {
        Json::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

/// Writes a blob and returns its descriptor.
fn write_json(layout: &Path, media_type: &str, value: &Json) -> Result<Json, ImageError> {
    let text = value.to_string();
    let digest = blobs::write(layout, text.as_bytes())?;
    Ok(json!({"mediaType": media_type, "digest": digest, "size": text.len()}))
}

fn write_file(path: &Path, value: &Json) -> Result<(), ImageError> {
    fs::write(path, value.to_string()).map_err(ImageError::io(path))
}
