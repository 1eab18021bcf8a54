//! Probes what the driver modes of an image depend on: whether O_DIRECT works, and whether it is preallocated.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use domain::driver_modes::{DirectIoProbe, ProbeError};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::qcow2_header::qcow2_size;
use crate::atomic_file::PendingFile;

/// Probes the node's file systems. Blocking, for microseconds on a local one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DirectIo;

impl DirectIoProbe for DirectIo {
    fn block_device(&self, path: &str) -> Result<bool, ProbeError> {
        opens(Path::new(path), OFlags::RDONLY)
    }

    fn file(&self, path: &str) -> Result<bool, ProbeError> {
        let path = Path::new(path);
        if path.exists() {
            return opens(path, OFlags::RDONLY);
        }
        // The image does not exist yet: a file beside it is opened instead, and removed.
        let probe = PendingFile::new(path);
        opens(probe.path(), OFlags::RDONLY | OFlags::CREATE)
    }

    fn preallocated(&self, path: &str) -> bool {
        is_preallocated(Path::new(path)).unwrap_or(false)
    }
}

/// The rule of QEMU's own probe: EINVAL with O_DIRECT and success without it.
fn opens(path: &Path, flags: OFlags) -> Result<bool, ProbeError> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let failed = |errno: Errno| ProbeError {
        path: path.display().to_string(),
        source: errno.into(),
    };
    match open(path, flags | OFlags::DIRECT, Mode::RUSR | Mode::WUSR) {
        Ok(_) => Ok(true),
        Err(Errno::INVAL) => open(path, flags, Mode::RUSR | Mode::WUSR)
            .map(|_| false)
            .map_err(failed),
        Err(errno) => Err(failed(errno)),
    }
}

/// As much allocated as the guest sees. Read off the file itself, which takes microseconds where a
/// run of `qemu-img info` takes ten milliseconds on the way of every start.
fn is_preallocated(path: &Path) -> std::io::Result<bool> {
    let metadata = fs::metadata(path)?;
    if metadata.file_type().is_block_device() || !metadata.is_file() {
        return Ok(false);
    }
    let virtual_size = qcow2_size(path)?.unwrap_or(metadata.len());
    Ok(virtual_size <= metadata.blocks() * 512)
}
