//! A qcow2 image that qemu-img creates under a temporary name, which is renamed when the image is complete.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::file_presence::is_present;
use super::pending_image::{FILE_OPERATION_TIMEOUT, PendingImage};
use super::{DiskImageError, DiskTools, qemu_img};
use crate::atomic_file::{self, FileAttrs};
use crate::blocking;

/// The path and attributes of a qcow2 image that a disk needs.
pub(super) struct Qcow2Image {
    path: PathBuf,
    attrs: FileAttrs,
}

/// An image that is not complete yet, under a temporary name.
pub(super) struct PendingQcow2Image {
    path: PathBuf,
    file: PendingImage,
    attrs: FileAttrs,
}

impl Qcow2Image {
    pub(super) fn new(path: &str, mode: u32) -> Self {
        Self {
            path: path.into(),
            attrs: FileAttrs {
                mode,
                durable: true,
            },
        }
    }

    /// Creates the image, unless it exists: `qemu-img create` under a temporary name, then owner and mode, then the
    /// rename.
    pub(super) async fn create(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskImageError> {
        let Some(pending) = self.start(tools).await? else {
            return Ok(());
        };
        pending.run_create(options, size, tools).await?;
        pending.commit().await
    }

    /// Reserves a temporary name for the image; `None` when the image exists already.
    pub(super) async fn start(
        &self,
        tools: &DiskTools,
    ) -> Result<Option<PendingQcow2Image>, DiskImageError> {
        let path = self.path.clone();
        if is_present(&path, tools).await? {
            let chown = move || {
                atomic_file::remove_stale(&path);
                atomic_file::chown_to_qemu(&path)
            };
            blocking::file_call("giving away an image", FILE_OPERATION_TIMEOUT, chown).await??;
            return Ok(None);
        }
        Ok(Some(PendingQcow2Image {
            file: PendingImage::create(path).await?,
            path: self.path.clone(),
            attrs: self.attrs,
        }))
    }
}

impl PendingQcow2Image {
    /// The temporary path.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Runs `qemu-img create` with the temporary path.
    pub(super) async fn run_create(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskImageError> {
        let mut arguments: Vec<&OsStr> = vec!["-q".as_ref(), "-f".as_ref(), "qcow2".as_ref()];
        arguments.extend(options.iter().map(OsString::as_os_str));
        arguments.push(self.path().as_os_str());
        arguments.extend(size.iter().map(OsString::as_os_str));
        qemu_img::run(tools, "create", &self.path, &arguments).await?;
        Ok(())
    }

    /// Gives the complete image its name.
    pub(super) async fn commit(self) -> Result<(), DiskImageError> {
        self.file.commit(self.attrs).await
    }
}
