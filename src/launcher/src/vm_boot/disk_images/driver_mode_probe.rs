//! Probes what the driver modes of an image depend on: whether O_DIRECT works, and whether the image is preallocated.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use domain::driver_modes::{DirectIoProbe, ProbeError};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::qcow2_virtual_size::qcow2_size;
use crate::atomic_file::PendingFile;

/// Probes the file systems of the images. Blocking, for microseconds on a local file system.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DriverModeProbe;

impl DirectIoProbe for DriverModeProbe {
    fn block_device(&self, path: &str) -> Result<bool, ProbeError> {
        supports_direct_io(Path::new(path), OFlags::RDONLY)
    }

    fn file(&self, path: &str) -> Result<bool, ProbeError> {
        let path = Path::new(path);
        if path.exists() {
            return supports_direct_io(path, OFlags::RDONLY);
        }
        // The image does not exist yet: a temporary file in its directory is opened instead.
        let probe = PendingFile::new(path);
        supports_direct_io(probe.path(), OFlags::RDONLY | OFlags::CREATE)
    }

    fn preallocated(&self, path: &str) -> bool {
        is_preallocated(Path::new(path)).unwrap_or(false)
    }
}

/// Whether a file can be opened with O_DIRECT. As in QEMU's own probe, it cannot if the open gives EINVAL with O_DIRECT
/// and succeeds without it.
fn supports_direct_io(path: &Path, flags: OFlags) -> Result<bool, ProbeError> {
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

/// Whether the allocated size is at least the size that the guest sees. Read from the file itself, which takes
/// microseconds; `qemu-img info` would take ten milliseconds of every start.
fn is_preallocated(path: &Path) -> std::io::Result<bool> {
    let metadata = fs::metadata(path)?;
    if metadata.file_type().is_block_device() || !metadata.is_file() {
        return Ok(false);
    }
    let virtual_size = qcow2_size(path)?.unwrap_or(metadata.len());
    Ok(virtual_size <= metadata.blocks() * 512)
}
