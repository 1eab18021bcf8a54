//! qcow2 images that qemu-img makes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::prepare::is_there;
use super::{DiskError, DiskTools, qemu_img};
use crate::blocking;
use crate::placing::{self, Part, PlaceError, Placing};

/// Names are given and owners set off the runtime's threads: an image may lie on a network file system.
const NAMING: Duration = Duration::from_secs(10);

/// A qcow2 image that is to be in place.
pub(super) struct Image {
    path: PathBuf,
    placing: Placing,
}

/// One on its way there.
pub(super) struct Making {
    path: PathBuf,
    part: Part,
    placing: Placing,
}

impl Image {
    pub(super) fn new(path: &str, mode: u32) -> Self {
        Self {
            path: path.into(),
            placing: Placing { mode, kept: true },
        }
    }

    /// `qemu-img create` under another name, then owner, mode and at last its own name.
    pub(super) async fn create(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskError> {
        let Some(making) = self.begin(tools).await? else {
            return Ok(());
        };
        making.make(options, size, tools).await?;
        making.settle().await
    }

    /// Clears the way for making it; `None` when it is there already.
    pub(super) async fn begin(&self, tools: &DiskTools) -> Result<Option<Making>, DiskError> {
        let path = self.path.clone();
        if is_there(&path, tools).await? {
            let give = move || placing::give(&path);
            blocking::call("giving away an image", NAMING, give).await??;
            return Ok(None);
        }
        let begin = move || {
            placing::create_parent(&path)?;
            Ok::<_, PlaceError>(Part::of(&path))
        };
        Ok(Some(Making {
            part: blocking::call("beginning an image", NAMING, begin).await??,
            path: self.path.clone(),
            placing: self.placing,
        }))
    }
}

impl Making {
    /// Where the image is until it is complete.
    pub(super) fn part(&self) -> &Path {
        self.part.path()
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
        arguments.push(self.part().as_os_str());
        arguments.extend(size.iter().map(OsString::as_os_str));
        qemu_img::run(tools, "create", &self.path, &arguments).await?;
        Ok(())
    }

    /// Puts the complete image in place.
    pub(super) async fn settle(self) -> Result<(), DiskError> {
        let settle = move || self.part.settle(self.placing);
        Ok(blocking::call("putting an image in place", NAMING, settle).await??)
    }
}
