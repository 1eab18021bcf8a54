//! A [`PendingFile`] on a file system that may hang: created, renamed and removed off the async workers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Handle;

use super::DiskImageError;
use crate::atomic_file::{self, AtomicFileError, FileAttrs, PendingFile};
use crate::blocking;

/// How long renaming or removing a file, or changing its owner, may take.
pub(super) const FILE_OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// A pending file. If it is dropped, it is removed on another thread.
pub(super) struct PendingImage {
    path: PathBuf,
    file: Option<PendingFile>,
}

impl PendingImage {
    /// Reserves a temporary name for `target`, and creates its directory.
    pub(super) async fn create(target: PathBuf) -> Result<PendingImage, DiskImageError> {
        let create = move || {
            atomic_file::create_parent(&target)?;
            Ok::<_, AtomicFileError>(PendingFile::new(&target))
        };
        let file =
            blocking::file_call("beginning an image", FILE_OPERATION_TIMEOUT, create).await??;
        Ok(PendingImage {
            path: file.path().to_owned(),
            file: Some(file),
        })
    }

    /// The temporary path, to write to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the complete file to its target.
    pub(super) async fn commit(mut self, attrs: FileAttrs) -> Result<(), DiskImageError> {
        let file = self.file.take();
        let commit = move || file.map_or(Ok(()), |file| file.commit(attrs));
        Ok(
            blocking::file_call("putting an image in place", FILE_OPERATION_TIMEOUT, commit)
                .await??,
        )
    }

    /// Removes the file without waiting for the drop.
    pub(super) async fn discard(mut self) -> Result<(), DiskImageError> {
        let file = self.file.take();
        let discard = move || drop(file);
        Ok(blocking::file_call(
            "removing a temporary image",
            FILE_OPERATION_TIMEOUT,
            discard,
        )
        .await?)
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
    use std::fs;

    use super::*;

    #[test]
    fn dropped_file_is_removed_off_the_async_worker() {
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let image = directory.path().join("disks/disk.img");
        let pending = runtime.block_on(PendingImage::create(image)).unwrap();
        let path = pending.path().to_owned();
        fs::write(&path, "cut short").unwrap();
        runtime.block_on(async { drop(pending) });
        // Waits for the threads for blocking work.
        drop(runtime);
        assert!(!path.exists());
    }
}
