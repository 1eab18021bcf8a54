//! qcow2 images that qemu-img makes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::file_presence::is_present;
use super::pending_image::{NAMING, PendingImage};
use super::{DiskError, DiskTools, qemu_img};
use crate::atomic_file::{self, FileAttrs};
use crate::blocking;

/// A qcow2 image that a disk needs.
pub(super) struct Qcow2Image {
    path: PathBuf,
    attrs: FileAttrs,
}

/// An image that is being made, under another name.
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

    /// `qemu-img create` under another name, then owner, mode and at last its own name.
    pub(super) async fn create(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskError> {
        let Some(pending) = self.begin(tools).await? else {
            return Ok(());
        };
        pending.make(options, size, tools).await?;
        pending.commit().await
    }

    /// Begins to make the image; `None` when it exists already.
    pub(super) async fn begin(
        &self,
        tools: &DiskTools,
    ) -> Result<Option<PendingQcow2Image>, DiskError> {
        let path = self.path.clone();
        if is_present(&path, tools).await? {
            let chown = move || atomic_file::chown_to_qemu(&path);
            blocking::file_call("giving away an image", NAMING, chown).await??;
            return Ok(None);
        }
        Ok(Some(PendingQcow2Image {
            file: PendingImage::begin(path).await?,
            path: self.path.clone(),
            attrs: self.attrs,
        }))
    }
}

impl PendingQcow2Image {
    /// The image's path until it is complete.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// `qemu-img create` under the other name.
    pub(super) async fn make(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskError> {
        let mut arguments: Vec<&OsStr> = vec!["-q".as_ref(), "-f".as_ref(), "qcow2".as_ref()];
        arguments.extend(options.iter().map(OsString::as_os_str));
        arguments.push(self.path().as_os_str());
        arguments.extend(size.iter().map(OsString::as_os_str));
        qemu_img::run(tools, "create", &self.path, &arguments).await?;
        Ok(())
    }

    /// Gives the complete image its name.
    pub(super) async fn commit(self) -> Result<(), DiskError> {
        self.file.commit(self.attrs).await
    }
}
