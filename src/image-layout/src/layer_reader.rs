//! Reads one untrusted layer in memory, within size limits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Component, Path};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

/// The media types of readable layers that are compressed with gzip.
const GZIP_MEDIA_TYPES: [&str; 2] = [
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
];
const TAR_MEDIA_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
/// The maximum number of entries of a layer.
const MAX_ENTRIES: usize = 10_000;
/// The entry that hides the content of its directory in lower layers (image-spec, "Whiteouts").
pub(crate) const OPAQUE: &str = ".wh..wh..opq";
/// The prefix of an entry that hides a file or directory in lower layers. The rest of its name is the hidden name.
pub(crate) const WHITEOUT_PREFIX: &str = ".wh.";
/// The maximum length of a path or media type in an error, in characters.
const MAX_NAME: usize = 100;

/// Why a layer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The media type is not that of a layer, or its compression is not supported.
    #[error("a layer has the type {0:?}; layers are tar, or tar with gzip")]
    MediaType(String),
    /// The unpacked layers exceed the limit in bytes.
    #[error("the image has more than {0} bytes when its layers are unpacked")]
    ImageTooLarge(u64),
    /// The layer has more than 10,000 entries.
    #[error("a layer has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// A wanted file exceeds its size limit.
    #[error("{path:?} has {size} bytes, more than the {limit} that it may have")]
    FileTooLarge {
        /// The start of the file's path in the image.
        path: String,
        /// The size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A wanted file is a link, a directory or a device.
    #[error("{path:?} is not a regular file: put the file itself into the image")]
    NotRegular {
        /// The start of the file's path in the image.
        path: String,
    },
    /// The layer is truncated, or not an archive.
    #[error("a layer cannot be unpacked: {0}")]
    Damaged(#[from] io::Error),
}

/// The changes that a layer makes to the layers below.
#[derive(Debug, Default)]
pub(crate) struct LayerContent {
    /// The wanted files by path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The size of the unpacked archive in bytes.
    pub(crate) unpacked_bytes: u64,
    /// Files and directories that are hidden or replaced in the layers below.
    removed: BTreeSet<String>,
    /// Directories whose content is hidden in the layers below.
    opaque: BTreeSet<String>,
}

impl LayerContent {
    /// Whether the layer hides a file of the layers below it.
    pub(crate) fn hides(&self, path: &str) -> bool {
        let mut directories = path.match_indices('/').map(|(end, _)| &path[..end]);
        self.removed.contains(path)
            || self.opaque.contains("")
            || directories
                .any(|parent| self.removed.contains(parent) || self.opaque.contains(parent))
    }

    /// Records what an entry that is not a wanted file hides in the layers below.
    fn record_hidden(&mut self, path: &str, kind: EntryType) {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name == OPAQUE {
            self.opaque.insert(directory.to_owned());
        } else if let Some(hidden) = name.strip_prefix(WHITEOUT_PREFIX) {
            let hidden = Path::new(directory).join(hidden);
            self.removed.insert(hidden.display().to_string());
        } else if !kind.is_dir() {
            self.removed.insert(path.to_owned());
        }
    }
}

/// Reads a layer of at most `limit` unpacked bytes. `size_limit_of` returns the maximum size of a wanted file for its
/// path without a leading `/` or `./`. Entries whose path contains `..` or is not UTF-8 are ignored.
pub(crate) fn read_layer(
    content: &[u8],
    media_type: &str,
    limit: u64,
    size_limit_of: &impl Fn(&str) -> Option<u64>,
) -> Result<LayerContent, LayerError> {
    let mut limited = decompressed(content, media_type)?.take(limit + 1);
    let layer = read_entries(&mut limited, size_limit_of);
    if limited.limit() == 0 {
        return Err(LayerError::ImageTooLarge(limit));
    }
    Ok(LayerContent {
        unpacked_bytes: limit + 1 - limited.limit(),
        ..layer?
    })
}

/// The tar archive of a layer.
pub(crate) fn decompressed<'a>(
    layer: impl Read + 'a,
    media_type: &str,
) -> Result<Box<dyn Read + 'a>, LayerError> {
    match media_type {
        TAR_MEDIA_TYPE => Ok(Box::new(layer)),
        compressed if GZIP_MEDIA_TYPES.contains(&compressed) => {
            Ok(Box::new(MultiGzDecoder::new(layer)))
        }
        other => Err(LayerError::MediaType(truncate(other))),
    }
}

fn read_entries(
    reader: &mut impl Read,
    size_limit_of: &impl Fn(&str) -> Option<u64>,
) -> Result<LayerContent, LayerError> {
    let mut layer = LayerContent::default();
    let mut archive = Archive::new(reader);
    for (number, entry) in archive.entries()?.enumerate() {
        if number == MAX_ENTRIES {
            return Err(LayerError::TooManyEntries);
        }
        let mut entry = entry?;
        let Some(path) = path_in_image(&entry.path()?) else {
            continue;
        };
        let kind = entry.header().entry_type();
        let Some(limit) = size_limit_of(&path) else {
            layer.record_hidden(&path, kind);
            continue;
        };
        let (size, short_path) = (entry.size(), || truncate(&path));
        if !kind.is_file() {
            return Err(LayerError::NotRegular { path: short_path() });
        }
        if size > limit {
            let path = short_path();
            return Err(LayerError::FileTooLarge { path, size, limit });
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if content.len() as u64 != size {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        layer.files.insert(path, content);
    }
    Ok(layer)
}

/// The path without a leading `/` or `./`; `None` if it contains `..` or is not UTF-8.
pub(crate) fn path_in_image(path: &Path) -> Option<String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_str()?),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(names.join("/"))
}

pub(crate) fn truncate(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}
