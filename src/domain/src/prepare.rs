//! The last touch before the hooks see the domain: cache and IO modes that depend on where images lie.
//!
//! Room for hotplug (placeholder interfaces, spare PCIe root ports) is not made here: it is counted on
//! the XML as the hooks leave it.

use crate::spec::{Disk, DiskSource, DomainSpec};

/// Asks the node about an image. A trait, so that this crate touches no file.
pub trait DirectIoProbe {
    /// Whether the block device can be opened with O_DIRECT.
    ///
    /// # Errors
    /// The reason in words when the device could not be asked; it then counts as "no".
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

/// Where a disk's data ends up: the data store behind an image, or the image.
pub(crate) struct Backend {
    pub(crate) path: String,
    pub(crate) is_block: bool,
}

impl Backend {
    pub(crate) fn of(disk: &Disk) -> Option<Self> {
        let store = disk
            .source
            .data_store
            .as_ref()
            .and_then(|store| store.source.as_ref());
        store
            .and_then(Self::of_source)
            .or_else(|| Self::of_source(&disk.source))
    }

    fn of_source(source: &DiskSource) -> Option<Self> {
        let (path, is_block) = match (source.file.as_str(), source.dev.as_str()) {
            ("", "") => return None,
            ("", device) => (device, true),
            (file, _) => (file, false),
        };
        Some(Self {
            path: path.to_owned(),
            is_block,
        })
    }

    fn has_direct_io(&self, probe: &dyn DirectIoProbe) -> Result<bool, String> {
        if self.is_block {
            probe.block_device(&self.path)
        } else {
            probe.file(&self.path)
        }
    }
}

fn cache_mode(disk: &mut Disk, probe: &dyn DirectIoProbe) -> Result<(), PrepareError> {
    let Some(backend) = Backend::of(disk) else {
        return if disk.device == "cdrom" {
            Ok(())
        } else {
            Err(PrepareError::NoSource { disk: name(disk) })
        };
    };
    let asked = disk
        .driver
        .as_ref()
        .map_or("", |driver| driver.cache.as_str());
    if !matches!(asked, "" | "none") {
        return Ok(());
    }
    let mode = match (has_direct_io(disk, &backend, probe), asked) {
        (true, _) => "none",
        (false, "") => "writethrough",
        (false, _) => return Err(PrepareError::NoDirectIo { path: backend.path }),
    };
    disk.driver.get_or_insert_default().cache = mode.into();
    Ok(())
}

/// The image and the one it rests on, both. KubeVirt counts what cannot be asked as "no",
/// and so must we: QEMU would fail on it later.
fn has_direct_io(disk: &Disk, backend: &Backend, probe: &dyn DirectIoProbe) -> bool {
    let rests_on = disk
        .backing_store
        .as_ref()
        .and_then(|store| store.source.as_ref());
    backend.has_direct_io(probe).unwrap_or(false)
        && rests_on
            .and_then(Backend::of_source)
            .is_none_or(|backing| backing.has_direct_io(probe).unwrap_or(false))
}

/// Native IO needs O_DIRECT, and pays where no blocks have to be allocated.
fn io_mode(disk: &mut Disk, probe: &dyn DirectIoProbe) {
    let Some(backend) = Backend::of(disk) else {
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

fn name(disk: &Disk) -> String {
    disk.alias
        .as_ref()
        .map_or(&disk.target.device, |alias| &alias.name)
        .clone()
}
