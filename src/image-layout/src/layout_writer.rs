//! Writes whole layouts.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::ImageError;

/// The annotation with the name of an image in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Writes a new layout with one image, called `name` in it: `write_blobs` writes the blobs and returns the image's
/// descriptor. Returns the image's digest. A layout that cannot be written whole is not there at all.
pub(crate) fn write(
    layout: &Path,
    name: &str,
    write_blobs: impl FnOnce(&Path) -> Result<Json, ImageError>,
) -> Result<String, ImageError> {
    // A link counts, also one that leads nowhere.
    let (Some(file_name), Err(_)) = (layout.file_name(), layout.symlink_metadata()) else {
        return Err(ImageError::OutputExists(layout.to_owned()));
    };
    let parent = layout.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(ImageError::io(parent))?;
    // The directory is new, so nobody has put links into it. It is removed on drop if it has not been renamed.
    let staging = tempfile::Builder::new()
        .prefix(&format!(".{}.", file_name.to_string_lossy()))
        .suffix(".arriving")
        .permissions(Permissions::from_mode(0o777))
        .tempdir_in(parent)
        .map_err(ImageError::io(parent))?;
    let written = write_content(staging.path(), name, write_blobs);
    let digest = written.map_err(|error| about_final_path(error, staging.path(), layout))?;
    fs::rename(staging.path(), layout).map_err(ImageError::io(layout))?;
    Ok(digest)
}

fn write_content(
    layout: &Path,
    name: &str,
    write_blobs: impl FnOnce(&Path) -> Result<Json, ImageError>,
) -> Result<String, ImageError> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(ImageError::io(blobs))?;
    let mut image = write_blobs(layout)?;
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

/// The error with the path that the file would have had.
fn about_final_path(error: ImageError, staging: &Path, layout: &Path) -> ImageError {
    match error {
        ImageError::Io { path, source } => ImageError::Io {
            path: path
                .strip_prefix(staging)
                .map_or(path.clone(), |rest| layout.join(rest)),
            source,
        },
        other => other,
    }
}

fn write_file(path: &Path, value: &Json) -> Result<(), ImageError> {
    let created = File::create_new(path);
    let written = created.and_then(|mut file| file.write_all(value.to_string().as_bytes()));
    written.map_err(ImageError::io(path))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::blobs;

    /// As on a disk that is full after the first blob.
    #[test]
    fn layout_that_cannot_be_written_whole_is_not_there() {
        let temp_dir = tempfile::tempdir().unwrap();
        let layout = temp_dir.path().join("layout");
        let written = write(&layout, "latest", |directory| {
            blobs::write(directory, b"a blob")?;
            let full = io::Error::from(io::ErrorKind::StorageFull);
            Err(ImageError::io(directory.join("blobs/sha256/other"))(full))
        });
        let error = written.unwrap_err().to_string();
        let named = layout.join("blobs/sha256/other");
        assert!(error.starts_with(named.to_str().unwrap()), "{error}");
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn layout_that_exists_stays_as_it_is() {
        let temp_dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", temp_dir.path().join("link")).unwrap();
        for name in ["", "link"] {
            let written = write(&temp_dir.path().join(name), "latest", |_| Ok(json!({})));
            let error = written.unwrap_err();
            assert!(matches!(error, ImageError::OutputExists(_)), "{error}");
        }
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 1);
    }
}
