//! The blobs of a layout: files that are named by their digest.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sha2::digest::Output;
use sha2::{Digest, Sha256};

use crate::ImageError;

/// The largest manifest, configuration or index that is read.
pub(crate) const MAX_JSON: u64 = 4 << 20;

/// The digest of content, as descriptors have it.
pub(crate) fn digest_of(content: &[u8]) -> String {
    named(&Sha256::digest(content))
}

fn named(hash: &Output<Sha256>) -> String {
    format!("sha256:{hash:x}")
}

/// The path of a blob below a layout, unless the digest is no sha256.
pub(crate) fn blob_path(digest: &str) -> Option<PathBuf> {
    let hex = digest.strip_prefix("sha256:")?;
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (hex.len() == 64 && hex.bytes().all(lower)).then(|| Path::new("blobs/sha256").join(hex))
}

/// Writes a blob and returns its digest.
pub(crate) fn write(layout: &Path, content: &[u8]) -> Result<String, ImageError> {
    let digest = digest_of(content);
    write_once(layout, &digest, content)?;
    Ok(digest)
}

/// Writes a blob of a known digest, unless the layout has it.
pub(crate) fn write_once(layout: &Path, digest: &str, content: &[u8]) -> Result<(), ImageError> {
    let path = layout.join(blob_path(digest).ok_or_else(|| not_sha256(layout, digest))?);
    match path.exists() {
        true => Ok(()),
        false => fs::write(&path, content).map_err(ImageError::io(path)),
    }
}

/// Writes a JSON blob and returns its descriptor.
pub(crate) fn write_json(
    layout: &Path,
    media_type: &str,
    value: &serde_json::Value,
) -> Result<serde_json::Value, ImageError> {
    let text = value.to_string();
    let digest = write(layout, text.as_bytes())?;
    Ok(serde_json::json!({"mediaType": media_type, "digest": digest, "size": text.len()}))
}

/// Copies a blob and checks its digest.
pub(crate) fn copy(from: &Path, to: &Path, digest: &str) -> Result<(), ImageError> {
    let name = blob_path(digest).ok_or_else(|| not_sha256(from, digest))?;
    let (source, target) = (from.join(&name), to.join(&name));
    let mut reader = fs::File::open(&source).map_err(ImageError::io(&source))?;
    let mut writer = fs::File::create(&target).map_err(ImageError::io(&target))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = reader.read(&mut buffer).map_err(ImageError::io(&source))?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        writer
            .write_all(&buffer[..count])
            .map_err(ImageError::io(&target))?;
    }
    has_digest(from, digest, named(&hash.finalize()))
}

/// Reads a manifest, configuration or index.
pub(crate) fn read_json(layout: &Path, digest: &str) -> Result<serde_json::Value, ImageError> {
    parse(layout, &read(layout, digest, MAX_JSON)?)
}

/// Reads a blob of at most `limit` bytes and checks its digest.
pub(crate) fn read(layout: &Path, digest: &str, limit: u64) -> Result<Vec<u8>, ImageError> {
    let name = blob_path(digest).ok_or_else(|| not_sha256(layout, digest))?;
    let content = read_limited(&layout.join(name), limit)?;
    has_digest(layout, digest, digest_of(&content))?;
    Ok(content)
}

pub(crate) fn parse(layout: &Path, content: &[u8]) -> Result<serde_json::Value, ImageError> {
    serde_json::from_slice(content).map_err(|error| ImageError::Base {
        path: layout.to_owned(),
        reason: format!("a part of it is no JSON: {error}"),
    })
}

/// Reads a file of at most `limit` bytes.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, ImageError> {
    let file = fs::File::open(path).map_err(ImageError::io(path))?;
    let mut content = Vec::new();
    let mut limited = file.take(limit + 1);
    limited
        .read_to_end(&mut content)
        .map_err(ImageError::io(path))?;
    if content.len() as u64 > limit {
        return Err(ImageError::Base {
            path: path.to_owned(),
            reason: format!("it has more than the {limit} bytes that are read"),
        });
    }
    Ok(content)
}

fn has_digest(image: &Path, digest: &str, found: String) -> Result<(), ImageError> {
    if found == digest {
        return Ok(());
    }
    Err(ImageError::Digest {
        path: image.to_owned(),
        digest: digest.to_owned(),
        found,
    })
}

fn not_sha256(path: &Path, digest: &str) -> ImageError {
    ImageError::Base {
        path: path.to_owned(),
        reason: format!("{digest:?} is no sha256 digest"),
    }
}
