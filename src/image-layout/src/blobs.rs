//! Reads and writes the blobs of a layout, which are files named by their digest, and its JSON files.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::{Digest, ImageError, InvalidDigest, sha256};

/// The maximum size of a manifest, configuration or index in bytes.
pub(crate) const MAX_JSON: u64 = 4 << 20;

/// The path of a blob.
fn blob_path(layout: &Path, digest: &Digest) -> PathBuf {
    layout.join("blobs/sha256").join(digest.hex())
}

/// The path of a blob whose digest a layout's JSON names.
pub(crate) fn path_of(layout: &Path, digest: &str) -> Result<PathBuf, ImageError> {
    Ok(blob_path(layout, &parse_digest(layout, digest)?))
}

/// Parses a digest in a layout's JSON.
fn parse_digest(layout: &Path, digest: &str) -> Result<Digest, ImageError> {
    let parsed: Result<_, InvalidDigest> = digest.parse();
    parsed.map_err(|error| ImageError::InvalidLayout {
        path: layout.to_owned(),
        reason: error.to_string(),
    })
}

/// Writes a blob and returns its digest.
pub(crate) fn write(layout: &Path, content: &[u8]) -> Result<Digest, ImageError> {
    let digest = sha256(content);
    write_once(layout, &digest, content)?;
    Ok(digest)
}

/// Writes a blob with a known digest, unless the layout has it already.
pub(crate) fn write_once(layout: &Path, digest: &Digest, content: &[u8]) -> Result<(), ImageError> {
    let path = blob_path(layout, digest);
    let created = fs::File::create_new(&path);
    match created.and_then(|mut file| file.write_all(content)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        written => written.map_err(ImageError::io(path)),
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
    let digest = parse_digest(from, digest)?;
    let (source, target) = (blob_path(from, &digest), blob_path(to, &digest));
    let mut reader = fs::File::open(&source).map_err(ImageError::io(&source))?;
    let mut writer = match fs::File::create_new(&target) {
        // Two layers of an image can be the same.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        created => created.map_err(ImageError::io(&target))?,
    };
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
    check_digest(from, digest, hash.finalize().into())
}

/// Reads a manifest, configuration or index.
pub(crate) fn read_json(layout: &Path, digest: &str) -> Result<serde_json::Value, ImageError> {
    parse(layout, &read(layout, digest, MAX_JSON)?)
}

/// Reads a blob of at most `limit` bytes and checks its digest.
pub(crate) fn read(layout: &Path, digest: &str, limit: u64) -> Result<Vec<u8>, ImageError> {
    let digest = parse_digest(layout, digest)?;
    let content = read_limited(&blob_path(layout, &digest), limit)?;
    check_digest(layout, digest, sha256(&content))?;
    Ok(content)
}

pub(crate) fn parse(layout: &Path, content: &[u8]) -> Result<serde_json::Value, ImageError> {
    serde_json::from_slice(content).map_err(|error| ImageError::InvalidLayout {
        path: layout.to_owned(),
        reason: format!("a part of it is not JSON: {error}"),
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
        return Err(ImageError::InvalidLayout {
            path: path.to_owned(),
            reason: format!("it has more than the {limit} bytes that are read"),
        });
    }
    Ok(content)
}

fn check_digest(layout: &Path, digest: Digest, found: Digest) -> Result<(), ImageError> {
    if found == digest {
        return Ok(());
    }
    Err(ImageError::DigestMismatch {
        path: layout.to_owned(),
        digest,
        found,
    })
}
