//! Finds one small file in a base image, whose layers are read from the newest to the oldest until one decides.

use std::fs::File;
use std::io::{BufReader, Read};

use tar::Archive;

use crate::base_image::BaseImage;
use crate::layer_reader::{
    LayerError, OPAQUE, WHITEOUT_PREFIX, decompressed, path_in_image, truncate,
};
use crate::{ImageError, blobs};

/// The maximum size of an unpacked layer in bytes. The largest of KubeVirt's images has about 1 GiB.
const MAX_LAYER_BYTES: u64 = 16 << 30;

/// What a layer says about a file.
enum Decision {
    File(Vec<u8>),
    Removed,
}

impl BaseImage {
    /// The content of a file in the image's root directory, of at most `limit` bytes; `None` if the image lacks it.
    pub(crate) fn root_file(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, ImageError> {
        let layers = self.manifest["layers"].as_array().into_iter().flatten();
        for layer in layers.rev() {
            let member = |member: &str| layer[member].as_str().unwrap_or_default();
            let path = blobs::path_of(&self.layout, member("digest"))?;
            let file = File::open(&path).map_err(ImageError::io(&path))?;
            let decision = decompressed(BufReader::new(file), member("mediaType"))
                .and_then(|layer| decide(layer.take(MAX_LAYER_BYTES), name, limit));
            let unreadable = |source| ImageError::UnreadableLayer {
                path: self.layout.clone(),
                source,
            };
            match decision.map_err(unreadable)? {
                Some(Decision::File(content)) => return Ok(Some(content)),
                Some(Decision::Removed) => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }
}

/// What an unpacked layer says about a file in the root directory; `None` if that is left to the layers below.
fn decide(layer: impl Read, name: &str, limit: u64) -> Result<Option<Decision>, LayerError> {
    let mut decision = None;
    for entry in Archive::new(layer).entries()? {
        let entry = entry?;
        let Some(path) = path_in_image(&entry.path()?) else {
            continue;
        };
        if path == name {
            if !entry.header().entry_type().is_file() {
                return Err(LayerError::NotRegular { path });
            }
            let size = entry.size();
            if size > limit {
                return Err(LayerError::FileTooLarge {
                    path: truncate(&path),
                    size,
                    limit,
                });
            }
            let mut content = Vec::new();
            entry.take(limit).read_to_end(&mut content)?;
            // The layer's own file comes before what it removes.
            return Ok(Some(Decision::File(content)));
        }
        if path == OPAQUE || path.strip_prefix(WHITEOUT_PREFIX) == Some(name) {
            decision = Some(Decision::Removed);
        }
    }
    Ok(decision)
}
