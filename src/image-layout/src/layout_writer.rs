//! Creates the directories of a layout, and writes its files that are not blobs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::ImageError;

/// The annotation with the name of an image in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Creates the directories of a new layout.
pub(crate) fn create(layout: &Path) -> Result<(), ImageError> {
    if layout.exists() {
        return Err(ImageError::OutputExists(layout.to_owned()));
    }
    if let Some(parent) = layout.parent() {
        fs::create_dir_all(parent).map_err(ImageError::io(parent))?;
    }
    // The directory is new, so nobody has put links into it.
    fs::create_dir(layout).map_err(ImageError::io(layout))?;
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(ImageError::io(blobs))
}

/// Writes the index, with `image` under the name `name`, and the layout's version. Returns the image's digest.
pub(crate) fn finish(layout: &Path, name: &str, mut image: Json) -> Result<String, ImageError> {
    let digest = image["digest"].as_str().unwrap_or_default().to_owned();
    image["annotations"] = json!({REF_NAME: name});
    let index = json!({"schemaVersion": 2, "manifests": [image]});
    write_file(&layout.join("index.json"), &index)?;
    write_file(
        &layout.join("oci-layout"),
        &json!({"imageLayoutVersion": "1.0.0"}),
    )?;
    Ok(digest)
}

fn write_file(path: &Path, value: &Json) -> Result<(), ImageError> {
    let created = File::create_new(path);
    let written = created.and_then(|mut file| file.write_all(value.to_string().as_bytes()));
    written.map_err(ImageError::io(path))
}
