//! The files that the build script embeds in this program.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use flate2::read::GzDecoder;

/// An embedded file.
#[derive(Debug)]
pub(super) struct EmbeddedFile {
    /// The path in the archive.
    path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

/// The templates of all languages, each below its directory.
pub(super) static TEMPLATES: LazyLock<Vec<EmbeddedFile>> = LazyLock::new(|| {
    unpack_own(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/templates.tar.gz"
    )))
});
/// hooks-sdk and its dependencies in this workspace, as a source tree.
pub(super) static SDK: LazyLock<Vec<EmbeddedFile>> =
    LazyLock::new(|| unpack_own(include_bytes!(concat!(env!("OUT_DIR"), "/sdk.tar.gz"))));
/// The lock file with the versions that the SDK was tested with.
pub(super) static SDK_LOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/Cargo.lock"));

impl EmbeddedFile {
    /// The path relative to a directory, if the file is in it.
    pub(super) fn below(&self, directory: &str) -> Option<&Path> {
        self.path.strip_prefix(directory).ok()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn unpack_own(archive: &[u8]) -> Vec<EmbeddedFile> {
    unpack(archive).expect("the archive is the build script's own")
}

fn unpack(archive: &[u8]) -> io::Result<Vec<EmbeddedFile>> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let files = archive.entries()?.map(|entry| {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        Ok(EmbeddedFile { path, bytes })
    });
    files.collect()
}
