//! A [`PendingFile`] on a file system that may hang: created, renamed and removed off the async workers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Handle;

use super::DiskError;
use crate::atomic_file::{self, AtomicFileError, FileAttrs, PendingFile};
use crate::blocking;

/// Files are renamed, removed and their owners set within this time.
pub(super) const NAMING: Duration = Duration::from_secs(10);

/// A pending file, which is removed on another thread if it is dropped.
pub(super) struct PendingImage {
    path: PathBuf,
    file: Option<PendingFile>,
}

impl PendingImage {
    /// A pending file for `target`, whose directory is created.
    pub(super) async fn begin(target: PathBuf) -> Result<PendingImage, DiskError> {
        let begin = move || {
            atomic_file::create_parent(&target)?;
            Ok::<_, AtomicFileError>(PendingFile::new(&target))
        };
        let file = blocking::file_call("beginning an image", NAMING, begin).await??;
        Ok(PendingImage {
            path: file.path().to_owned(),
            file: Some(file),
        })
    }

    /// The path to write to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the complete file its name.
    pub(super) async fn commit(mut self, attrs: FileAttrs) -> Result<(), DiskError> {
        let file = self.file.take();
        let commit = move || file.map_or(Ok(()), |file| file.commit(attrs));
        Ok(blocking::file_call("putting an image in place", NAMING, commit).await??)
    }

    /// Removes the file.
    pub(super) async fn discard(mut self) -> Result<(), DiskError> {
        let file = self.file.take();
        let discard = move || drop(file);
        Ok(blocking::file_call("removing a temporary image", NAMING, discard).await?)
    }
}

impl Drop for PendingImage {
    fn drop(&mut self) {
        // Without a runtime there is no async worker to keep from blocking.
        if let (Some(file), Ok(runtime)) = (self.file.take(), Handle::try_current()) {
            runtime.spawn_blocking(move || drop(file));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn file_that_is_dropped_is_removed_off_the_worker() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let image = directory.path().join("disks/disk.img");
        let pending = runtime.block_on(PendingImage::begin(image)).unwrap();
        let path = pending.path().to_owned();
        fs::write(&path, "cut short").unwrap();
        runtime.block_on(async { drop(pending) });
        // Waits for the threads for blocking work.
        drop(runtime);
        assert!(!path.exists());
    }
}
