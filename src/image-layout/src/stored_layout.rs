//! Reads a layout on disk that has one image.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::{ImageError, blobs};

/// An OCI image layout with one image.
#[derive(Debug)]
pub struct StoredLayout {
    path: PathBuf,
    image: Json,
}

impl StoredLayout {
    /// Opens a layout, which has to have one image (or index of images).
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let invalid_layout = |reason: &str| ImageError::InvalidLayout {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        if !path.join("oci-layout").is_file() {
            return Err(invalid_layout(
                "it is not an OCI image layout: `virt-hook image` writes one",
            ));
        }
        let index = blobs::read_limited(&path.join("index.json"), blobs::MAX_JSON)?;
        let index = blobs::parse(path, &index)?;
        match index["manifests"].as_array().map(Vec::as_slice) {
            Some([image]) => Ok(Self {
                path: path.to_owned(),
                image: image.clone(),
            }),
            _ => Err(invalid_layout(
                "it has several images, or none; one is wanted",
            )),
        }
    }

    /// The descriptor of the image: `mediaType`, `digest`, `size`.
    #[must_use]
    pub fn image(&self) -> &Json {
        &self.image
    }

    /// The content of a descriptor's blob, at most `limit` bytes, checked against its digest.
    pub fn blob(&self, descriptor: &Json, limit: u64) -> Result<Vec<u8>, ImageError> {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        blobs::read(&self.path, digest, limit)
    }
}
