//! Writes the state of a persistent TPM to disk, since freezing the guest does not do this.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::blocking::{self, NoAnswer};

/// How long writing to disk may take.
/// How long writing to disk may take.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum depth of the directory tree. swtpm keeps a directory per VM with one directory of a few files.
const MAX_DEPTH: usize = 4;

/// The TPM's state could not be written to disk.
#[derive(Debug, thiserror::Error)]
pub enum TpmStateError {
    /// A file or directory cannot be read or written.
    #[error("writing the TPM's state to disk: {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Writing to disk timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// Writes all files below the directory to disk.
pub(super) async fn sync(directory: PathBuf) -> Result<(), TpmStateError> {
    let sync = move || sync_tree(&directory, MAX_DEPTH);
    blocking::file_call("writing the TPM's state to disk", SYNC_TIMEOUT, sync).await?
}

fn sync_tree(path: &Path, depth: usize) -> Result<(), TpmStateError> {
    let error = |source| TpmStateError::Io {
        path: path.to_owned(),
        source,
    };
    let kind = fs::symlink_metadata(path).map_err(error)?.file_type();
    if kind.is_dir() && depth > 0 {
        for entry in fs::read_dir(path).map_err(error)? {
            sync_tree(&entry.map_err(error)?.path(), depth - 1)?;
        }
    }
    if kind.is_dir() || kind.is_file() {
        File::open(path)
            .and_then(|file| file.sync_all())
            .map_err(error)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn error_contains_the_path_of_a_missing_directory() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tpm2")).unwrap();
        fs::write(directory.path().join("tpm2/state"), b"x").unwrap();
        sync(directory.path().to_owned()).await.unwrap();
        let missing = directory.path().join("none");
        let error = sync(missing.clone()).await.unwrap_err().to_string();
        assert!(error.contains(missing.to_str().unwrap()), "{error}");
    }
}
