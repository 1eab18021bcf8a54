//! Errors of reading and writing images.

use std::io;
use std::path::PathBuf;

use crate::{Digest, LayerError};

/// Why an image cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A directory or archive is not an OCI image layout, is invalid, or has no usable image.
    #[error("{path}: {reason}")]
    InvalidLayout {
        /// The layout, or a file of it.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A blob's content does not have its digest.
    #[error("{path}: the blob {digest} has other content ({found}): the image is damaged")]
    DigestMismatch {
        /// The layout.
        path: PathBuf,
        /// The digest in the manifest.
        digest: Digest,
        /// The digest of the content.
        found: Digest,
    },
    /// A path in a layer is used twice, is not absolute or contains `.` or `..`, or its file cannot be added.
    #[error("{path} cannot be in a layer: {reason}")]
    InvalidEntry {
        /// The path in the image.
        path: String,
        /// The cause.
        reason: &'static str,
    },
    /// The archive of a layer cannot be written.
    #[error("a layer cannot be packed: {0}")]
    Layer(io::Error),
    /// A layer of a base cannot be unpacked, or a file in it cannot be read.
    #[error("{path}: {source}")]
    UnreadableLayer {
        /// The layout.
        path: PathBuf,
        /// The cause.
        source: LayerError,
    },
    /// A file is not a 64-bit ELF program, or is damaged.
    #[error("{0}")]
    UnreadableProgram(String),
    /// The output directory exists already.
    #[error("{0} exists; name a new directory")]
    OutputExists(PathBuf),
}

impl ImageError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
