//! The wanted files of an untrusted image, after all its layers are applied.

use std::collections::BTreeMap;

use crate::LayerError;
use crate::layer_reader::read_layer;

/// The wanted files of an image, whose layers are added from the lowest to the highest.
#[derive(Debug)]
pub struct ImageFiles<F> {
    size_limit_of: F,
    image_limit: u64,
    unpacked_bytes: u64,
    files: BTreeMap<String, Vec<u8>>,
}

impl<F: Fn(&str) -> Option<u64>> ImageFiles<F> {
    /// An image without layers. `image_limit` is the maximum size in bytes of all unpacked layers together.
    /// `size_limit_of` returns the maximum size of a wanted file for its path without a leading `/`, and `None` for a
    /// file that is not wanted.
    #[must_use]
    pub fn new(image_limit: u64, size_limit_of: F) -> Self {
        Self {
            size_limit_of,
            image_limit,
            unpacked_bytes: 0,
            files: BTreeMap::new(),
        }
    }

    /// Adds a layer: its files replace those of the layers before it, and its whiteouts remove them.
    pub fn add_layer(&mut self, content: &[u8], media_type: &str) -> Result<(), LayerError> {
        let remaining = self.image_limit - self.unpacked_bytes;
        let layer = read_layer(content, media_type, remaining, &self.size_limit_of);
        let layer = layer.map_err(|error| match error {
            LayerError::ImageTooLarge(_) => LayerError::ImageTooLarge(self.image_limit),
            other => other,
        })?;
        self.unpacked_bytes += layer.unpacked_bytes;
        self.files.retain(|path, _| !layer.hides(path));
        self.files.extend(layer.files);
        Ok(())
    }

    /// The paths of the files, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The files by path.
    #[must_use]
    pub fn into_files(self) -> BTreeMap<String, Vec<u8>> {
        self.files
    }
}
