//! A base image: an OCI image layout, as a directory or as an archive (tar).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::{Digest, ImageError, Platform, blobs};

/// The media type of image manifests.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of indexes.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// How to make a layout, for errors.
const REMEDY: &str = "make one with: skopeo copy docker://IMAGE oci:DIRECTORY";
/// The maximum depth of nested indexes.
const MAX_INDEX_DEPTH: usize = 4;

/// An image in a layout.
pub(crate) struct BaseImage {
    /// The directory of the layout.
    pub(crate) layout: PathBuf,
    pub(crate) manifest: Json,
    pub(crate) config: Json,
    /// The temporary directory of an unpacked archive, which is removed on drop.
    _unpacked: Option<TempDir>,
}

impl BaseImage {
    /// Reads the image for a platform from a directory or an archive.
    pub(crate) fn read(path: &Path, platform: &Platform) -> Result<Self, ImageError> {
        let unpacked = path.is_file().then(|| unpack(path)).transpose()?;
        let layout = unpacked.as_ref().map_or(path, |directory| directory.path());
        if !layout.join("oci-layout").is_file() {
            return Err(invalid_layout(
                path,
                format!("it is not an OCI image layout; {REMEDY}"),
            ));
        }
        let index = blobs::read_limited(&layout.join("index.json"), blobs::MAX_JSON)?;
        let index = blobs::parse(layout, &index)?;
        let manifest = find_manifest(layout, &index, platform, 0)?;
        let manifest = manifest.ok_or_else(|| {
            invalid_layout(path, format!("it has no image for {platform}; {REMEDY}"))
        })?;
        let config = manifest["config"]["digest"].as_str().unwrap_or_default();
        let config = blobs::read_json(layout, config)?;
        check_platform(&config, platform).map_err(|reason| invalid_layout(path, reason))?;
        let is_list = |value: &Json| value.is_array();
        if !is_list(&manifest["layers"]) || !is_list(&config["rootfs"]["diff_ids"]) {
            return Err(invalid_layout(
                path,
                "its manifest or configuration lacks the layers".to_owned(),
            ));
        }
        Ok(Self {
            layout: layout.to_owned(),
            manifest,
            config,
            _unpacked: unpacked,
        })
    }
}

/// Checks the platform in the image's configuration, because the descriptor of a layout's only image may lack it.
fn check_platform(config: &Json, platform: &Platform) -> Result<(), String> {
    let member = |name: &str| config[name].as_str().unwrap_or("unknown").to_owned();
    let actual = Platform {
        os: member("os"),
        architecture: member("architecture"),
    };
    match actual == *platform {
        true => Ok(()),
        false => Err(format!(
            "its image is for {actual}, and one for {platform} is needed; take that of this machine: skopeo copy \
             --override-arch {} docker://IMAGE oci:DIRECTORY",
            platform.architecture
        )),
    }
}

/// The manifest for the platform. A layout with a single image need not name its platform.
fn find_manifest(
    layout: &Path,
    index: &Json,
    platform: &Platform,
    depth: usize,
) -> Result<Option<Json>, ImageError> {
    let manifests = index["manifests"].as_array().map_or(&[][..], Vec::as_slice);
    let is_only = manifests.len() == 1;
    for descriptor in manifests {
        let described = &descriptor["platform"];
        let matches = described.is_null() && is_only
            || described["os"] == platform.os && described["architecture"] == platform.architecture;
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        match descriptor["mediaType"].as_str().unwrap_or_default() {
            INDEX if depth < MAX_INDEX_DEPTH => {
                let nested = blobs::read_json(layout, digest)?;
                if let Some(found) = find_manifest(layout, &nested, platform, depth + 1)? {
                    return Ok(Some(found));
                }
            }
            MANIFEST if matches => return blobs::read_json(layout, digest).map(Some),
            other if matches => {
                return Err(invalid_layout(
                    layout,
                    format!("its image is of the type {other:?}; {REMEDY}"),
                ));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Unpacks the files of a layout; other files and links are ignored.
fn unpack(archive: &Path) -> Result<TempDir, ImageError> {
    let directory = tempfile::tempdir().map_err(ImageError::io(archive))?;
    fs::create_dir_all(directory.path().join("blobs/sha256")).map_err(ImageError::io(archive))?;
    let file = fs::File::open(archive).map_err(ImageError::io(archive))?;
    let mut entries = tar::Archive::new(file);
    for entry in entries.entries().map_err(ImageError::io(archive))? {
        let mut entry = entry.map_err(ImageError::io(archive))?;
        let path = entry.path().map_err(ImageError::io(archive))?.into_owned();
        let path = path.strip_prefix("./").unwrap_or(&path).to_owned();
        let is_blob = path.strip_prefix("blobs/sha256").is_ok_and(|name| {
            name.to_str()
                .is_some_and(|name| format!("sha256:{name}").parse::<Digest>().is_ok())
        });
        let is_layout_file = is_blob
            || ["oci-layout", "index.json"]
                .iter()
                .any(|part| path == Path::new(part));
        if is_layout_file && entry.header().entry_type().is_file() {
            let target = directory.path().join(&path);
            let mut file = fs::File::create(&target).map_err(ImageError::io(&target))?;
            std::io::copy(&mut entry, &mut file).map_err(ImageError::io(&target))?;
        }
    }
    Ok(directory)
}

fn invalid_layout(path: &Path, reason: String) -> ImageError {
    ImageError::InvalidLayout {
        path: path.to_owned(),
        reason,
    }
}
