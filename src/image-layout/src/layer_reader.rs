//! Reads one untrusted layer in memory, within size limits.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Component, Path};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

/// The media types of layers that can be read.
const COMPRESSED: [&str; 2] = [
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
];
const PLAIN: &str = "application/vnd.oci.image.layer.v1.tar";
/// The most entries of a layer.
const MAX_ENTRIES: usize = 10_000;
/// The name of the entry that hides everything that lower layers have in its directory (image-spec, "Whiteouts").
const OPAQUE: &str = ".wh..wh..opq";
/// What precedes the name of a hidden file or directory in that of the entry that hides it.
const WHITEOUT: &str = ".wh.";
/// The most characters of a name in an error.
const MAX_NAME: usize = 100;

/// Why a layer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// Another compression, or no layer.
    #[error("a layer has the type {0:?}; layers are tar, or tar with gzip")]
    MediaType(String),
    /// The layers have more content than is read.
    #[error("the image has more than {0} bytes when its layers are unpacked")]
    ImageTooLarge(u64),
    /// It has more entries than are read.
    #[error("a layer has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// A wanted file is larger than any that is used.
    #[error("{path:?} has {size} bytes, more than the {limit} that it may have")]
    FileTooLarge {
        /// The start of its path in the image.
        path: String,
        /// Its bytes.
        size: u64,
        /// The most bytes.
        limit: u64,
    },
    /// A wanted file is a link, a directory or a device.
    #[error("{path:?} is not a regular file: put the file itself into the image")]
    NotRegular {
        /// The start of its path in the image.
        path: String,
    },
    /// It is truncated, or no archive.
    #[error("a layer cannot be unpacked: {0}")]
    Damaged(#[from] io::Error),
}

/// What a layer changes.
#[derive(Debug, Default)]
pub(crate) struct LayerContent {
    /// The wanted files by path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The bytes of the archive that were read.
    pub(crate) unpacked: u64,
    /// Files and directories that are hidden or replaced in the layers below.
    removed: BTreeSet<String>,
    /// Directories of which the content is hidden in the layers below.
    opaque: BTreeSet<String>,
}

impl LayerContent {
    /// Whether the layer hides a file of the layers below it.
    pub(crate) fn hides(&self, path: &str) -> bool {
        let mut directories = path.match_indices('/').map(|(end, _)| &path[..end]);
        self.removed.contains(path)
            || self.opaque.contains("")
            || directories.any(|one| self.removed.contains(one) || self.opaque.contains(one))
    }

    /// An entry that is no wanted file.
    fn other(&mut self, path: &str, kind: EntryType) {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name == OPAQUE {
            self.opaque.insert(directory.to_owned());
        } else if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            let hidden = Path::new(directory).join(hidden);
            self.removed.insert(hidden.display().to_string());
        } else if !kind.is_dir() {
            self.removed.insert(path.to_owned());
        }
    }
}

/// Reads a layer, of at most `limit` bytes when it is unpacked. `limit_of` has the most bytes of a wanted file by its
/// path, without a leading `/` or `./`. A path that leads out of the layer is left out.
pub(crate) fn read(
    content: &[u8],
    media_type: &str,
    limit: u64,
    limit_of: &impl Fn(&str) -> Option<u64>,
) -> Result<LayerContent, LayerError> {
    let reader: Box<dyn Read> = match media_type {
        PLAIN => Box::new(content),
        compressed if COMPRESSED.contains(&compressed) => Box::new(MultiGzDecoder::new(content)),
        other => return Err(LayerError::MediaType(start_of(other))),
    };
    let mut limited = reader.take(limit + 1);
    let read = read_entries(&mut limited, limit_of);
    if limited.limit() == 0 {
        return Err(LayerError::ImageTooLarge(limit));
    }
    Ok(LayerContent {
        unpacked: limit + 1 - limited.limit(),
        ..read?
    })
}

fn read_entries(
    reader: &mut impl Read,
    limit_of: &impl Fn(&str) -> Option<u64>,
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
        let Some(limit) = limit_of(&path) else {
            layer.other(&path, kind);
            continue;
        };
        let (size, start) = (entry.size(), || start_of(&path));
        if !kind.is_file() {
            return Err(LayerError::NotRegular { path: start() });
        }
        if size > limit {
            let path = start();
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

/// The path without a leading `/` or `./`; `None` if it leads out of the image, or is not text.
fn path_in_image(path: &Path) -> Option<String> {
    let mut steps = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(step) => steps.push(step.to_str()?),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(steps.join("/"))
}

fn start_of(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}
