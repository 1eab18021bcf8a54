//! Cache and IO modes of disks, which depend on the file systems of the images. They are set before hooks are called.

use crate::disk_backend::DiskBackend;
use crate::libvirt_spec::{Disk, DomainSpec};

/// Probes files and devices. A trait, because this crate does not access the file system.
pub trait DirectIoProbe {
    /// Whether the block device can be opened with O_DIRECT.
    ///
    /// # Errors
    /// [`ProbeError`] if the device cannot be opened at all, which counts as no.
    fn block_device(&self, path: &str) -> Result<bool, ProbeError>;
    /// Whether the file, existing or not, can be opened with O_DIRECT.
    ///
    /// # Errors
    /// As for [`DirectIoProbe::block_device`].
    fn file(&self, path: &str) -> Result<bool, ProbeError>;
    /// Whether the image is fully allocated.
    fn preallocated(&self, path: &str) -> bool;
}

/// The error for a file or device that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct ProbeError {
    /// The file or device.
    pub path: String,
    /// The system's error.
    pub source: std::io::Error,
}

/// Why the modes of a disk cannot be set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DriverModeError {
    /// The disk has no source.
    #[error("disk {disk}: unable to set a driver cache mode, disk has no backend path")]
    NoSource {
        /// The disk's alias or target.
        disk: String,
    },
    /// The VMI requires `cache: none`, and the file system does not support O_DIRECT.
    #[error(
        "Unable to use 'none' cache mode, file system where {path} is stored does not support direct I/O"
    )]
    NoDirectIo {
        /// The image.
        path: String,
    },
}

/// Sets cache and IO mode of every disk by KubeVirt's rule: cache mode `none` if O_DIRECT works, else `writethrough`;
/// native IO for block devices and preallocated images with cache mode `none`.
///
/// # Errors
/// [`DriverModeError`], which names the disk or its image.
pub fn set_driver_modes(
    spec: &mut DomainSpec,
    probe: &dyn DirectIoProbe,
) -> Result<(), DriverModeError> {
    let mut disks = spec.devices.disks.iter_mut();
    disks.try_for_each(|disk| set_disk_modes(disk, probe))
}

/// Sets the modes of one disk, as [`set_driver_modes`] does for all.
///
/// # Errors
/// [`DriverModeError`], which names the disk or its image.
pub fn set_disk_modes(disk: &mut Disk, probe: &dyn DirectIoProbe) -> Result<(), DriverModeError> {
    set_cache_mode(disk, probe)?;
    set_io_mode(disk, probe);
    Ok(())
}

fn set_cache_mode(disk: &mut Disk, probe: &dyn DirectIoProbe) -> Result<(), DriverModeError> {
    let Some(backend) = DiskBackend::from_disk(disk) else {
        return if disk.device == "cdrom" {
            Ok(())
        } else {
            Err(DriverModeError::NoSource {
                disk: alias_or_target(disk),
            })
        };
    };
    let requested = disk
        .driver
        .as_ref()
        .map_or("", |driver| driver.cache.as_str());
    if !matches!(requested, "" | "none") {
        return Ok(());
    }
    let mode = match (has_direct_io(disk, &backend, probe), requested) {
        (true, _) => "none",
        (false, "") => "writethrough",
        (false, _) => return Err(DriverModeError::NoDirectIo { path: backend.path }),
    };
    disk.driver.get_or_insert_default().cache = mode.into();
    Ok(())
}

fn probe_direct_io(backend: &DiskBackend, probe: &dyn DirectIoProbe) -> Result<bool, ProbeError> {
    match backend.is_block {
        true => probe.block_device(&backend.path),
        false => probe.file(&backend.path),
    }
}

/// Whether O_DIRECT works for the image and for its backing image. As in KubeVirt, a file that cannot be opened counts
/// as no; QEMU fails on it later.
fn has_direct_io(disk: &Disk, backend: &DiskBackend, probe: &dyn DirectIoProbe) -> bool {
    let backing = disk
        .backing_store
        .as_ref()
        .and_then(|store| store.source.as_ref());
    probe_direct_io(backend, probe).unwrap_or(false)
        && backing
            .and_then(DiskBackend::from_source)
            .is_none_or(|backing| probe_direct_io(&backing, probe).unwrap_or(false))
}

/// Sets native IO if the cache mode is `none`, because native IO needs O_DIRECT, and only if no blocks have to be
/// allocated, because otherwise native IO is not faster.
fn set_io_mode(disk: &mut Disk, probe: &dyn DirectIoProbe) {
    let Some(backend) = DiskBackend::from_disk(disk) else {
        return;
    };
    let driver = disk.driver.get_or_insert_default();
    if driver.io.is_empty()
        && driver.cache == "none"
        && (backend.is_block || probe.preallocated(&backend.path))
    {
        driver.io = "native".into();
    }
}

fn alias_or_target(disk: &Disk) -> String {
    disk.alias
        .as_ref()
        .map_or(&disk.target.device, |alias| &alias.name)
        .clone()
}
