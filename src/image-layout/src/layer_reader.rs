//! The files of a layer that somebody else made: of limited size, and nothing is written.

use std::collections::BTreeMap;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use tar::Archive;

/// The media types of layers that can be read.
const COMPRESSED: [&str; 2] = [
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
];
const PLAIN: &str = "application/vnd.oci.image.layer.v1.tar";
/// The most entries of a layer.
const MAX_ENTRIES: usize = 10_000;

/// Why a layer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// Another compression, or no layer.
    #[error("a layer has the type {0:?}; layers are tar, or tar with gzip")]
    MediaType(String),
    /// It has more content or entries than are read.
    #[error("a layer has more than {0}")]
    TooLarge(String),
    /// It is truncated, or no archive.
    #[error("a layer cannot be unpacked: {0}")]
    Damaged(io::Error),
}

/// The regular files of a layer whose path is wanted, by path without a leading `/` or `./`. A path
/// that leads out of the layer is left out. `limit` is that of the whole unpacked layer in bytes.
pub fn files_of_layer(
    content: &[u8],
    media_type: &str,
    limit: u64,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Vec<u8>>, LayerError> {
    let reader: Box<dyn Read> = match media_type {
        PLAIN => Box::new(content),
        compressed if COMPRESSED.contains(&compressed) => Box::new(MultiGzDecoder::new(content)),
        other => {
            let start = other.chars().take(100).collect();
            return Err(LayerError::MediaType(start));
        }
    };
    let mut limited = reader.take(limit + 1);
    let mut files = BTreeMap::new();
    let read = read_files(&mut limited, &is_wanted, &mut files);
    if limited.limit() == 0 {
        return Err(LayerError::TooLarge(format!("{limit} bytes")));
    }
    match read.map_err(LayerError::Damaged)? {
        true => Ok(files),
        false => Err(LayerError::TooLarge(format!("{MAX_ENTRIES} entries"))),
    }
}

/// Returns whether there were no more entries than are read.
fn read_files(
    reader: &mut impl Read,
    is_wanted: &impl Fn(&str) -> bool,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> io::Result<bool> {
    let mut archive = Archive::new(reader);
    for (number, entry) in archive.entries()?.enumerate() {
        if number == MAX_ENTRIES {
            return Ok(false);
        }
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let path = path
            .to_str()
            .map(|path| path.trim_start_matches("./").trim_start_matches('/'));
        let Some(path) = path.filter(|path| !path.split('/').any(|step| step == "..")) else {
            continue;
        };
        if entry.header().entry_type().is_file() && is_wanted(path) {
            let size = entry.header().size()?;
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            if content.len() as u64 != size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            files.insert(path.to_owned(), content);
        }
    }
    Ok(true)
}
