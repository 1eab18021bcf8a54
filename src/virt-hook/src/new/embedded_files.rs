//! The files that the build script embeds in this program.

use std::path::{Path, PathBuf};

/// A file.
#[derive(Debug)]
pub(super) struct File {
    /// Relative, with `/`.
    path: &'static str,
    pub(super) bytes: &'static [u8],
}

/// The templates of all languages, each below its directory.
pub(super) static TEMPLATES: &[File] = include!(concat!(env!("OUT_DIR"), "/templates.rs"));
/// hooks-sdk and its dependencies in this workspace, as a source tree.
pub(super) static SDK: &[File] = include!(concat!(env!("OUT_DIR"), "/sdk.rs"));
/// The versions that the SDK was tested with.
pub(super) static LOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/Cargo.lock"));

impl File {
    /// The path relative to a directory, if the file is in it.
    pub(super) fn below(&self, directory: &str) -> Option<&'static Path> {
        Path::new(self.path).strip_prefix(directory).ok()
    }

    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(self.path)
    }
}
