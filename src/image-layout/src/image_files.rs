//! The wanted files of an untrusted image, after all its layers are applied.

use std::collections::BTreeMap;

use crate::LayerError;
use crate::layer_reader::read;

/// The wanted files of an image, whose layers are added from the lowest to the highest.
#[derive(Debug)]
pub struct ImageFiles<F> {
    limit_of: F,
    limit: u64,
    unpacked: u64,
    files: BTreeMap<String, Vec<u8>>,
}

impl<F: Fn(&str) -> Option<u64>> ImageFiles<F> {
    /// An image without layers. `limit` is the most bytes of all layers together when they are unpacked, and `limit_of`
    /// that of a wanted file, by its path without a leading `/`; `None` for files that are not wanted.
    #[must_use]
    pub fn new(limit: u64, limit_of: F) -> Self {
        Self {
            limit_of,
            limit,
            unpacked: 0,
            files: BTreeMap::new(),
        }
    }

    /// Adds a layer: its files replace those of the layers before it, and its whiteouts remove them.
    pub fn add_layer(&mut self, content: &[u8], media_type: &str) -> Result<(), LayerError> {
        let rest = self.limit - self.unpacked;
        let layer = read(content, media_type, rest, &self.limit_of);
        let layer = layer.map_err(|error| match error {
            LayerError::ImageTooLarge(_) => LayerError::ImageTooLarge(self.limit),
            other => other,
        })?;
        self.unpacked += layer.unpacked;
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
