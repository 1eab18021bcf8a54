//! qcow2 images that qemu-img makes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::prepare::{failed, is_there};
use super::{DiskError, DiskTools, qemu_img};
use crate::placing::{self, Placing};

/// A qcow2 image on its way into place.
pub(super) struct Image {
    path: PathBuf,
    part: PathBuf,
    placing: Placing,
}

impl Image {
    pub(super) fn new(path: &str, mode: u32) -> Self {
        Self {
            path: path.into(),
            part: format!("{path}.part").into(),
            placing: Placing { mode, kept: true },
        }
    }

    /// Where the image is until it is complete.
    pub(super) fn part(&self) -> &Path {
        &self.part
    }

    /// `qemu-img create` under another name, then owner, mode and at last its own name.
    pub(super) async fn create(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskError> {
        if self.begin(tools).await? {
            return Ok(());
        }
        self.make(options, size, tools).await?;
        self.settle()
    }

    /// Whether the image is there already; else clears the way for making it.
    pub(super) async fn begin(&self, tools: &DiskTools) -> Result<bool, DiskError> {
        if is_there(&self.path, tools).await? {
            placing::give(&self.path)?;
            return Ok(true);
        }
        placing::create_parent(&self.path)?;
        remove_rest(&self.part)?;
        Ok(false)
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
        arguments.push(self.part.as_os_str());
        arguments.extend(size.iter().map(OsString::as_os_str));
        qemu_img::run(tools, "create", &self.path, &arguments).await?;
        Ok(())
    }

    /// Puts the complete image in place.
    pub(super) fn settle(&self) -> Result<(), DiskError> {
        Ok(placing::settle(&self.part, &self.path, self.placing)?)
    }
}

/// What a start that was cut short has left.
pub(super) fn remove_rest(part: &Path) -> Result<(), DiskError> {
    match fs::remove_file(part) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", part, source))
        }
        _ => Ok(()),
    }
}
