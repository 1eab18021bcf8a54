//! Inspects the untrusted images of container disks with qemu-img before QEMU opens them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use domain::driver_modes::{DirectIoProbe, ProbeError};
use kubevirt_api::virtual_machine_options::DiskInfo;
use kubevirt_api::vmi::Vmi;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use serde::Deserialize;

use super::qemu_img::qcow2_size;
use super::{DiskImageError, DiskTools, qemu_img};
use crate::atomic_file::PendingFile;

/// The used part of the output of `qemu-img info --output json`.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ImageInfo {
    format: String,
    #[serde(default)]
    backing_filename: String,
    #[serde(default)]
    actual_size: u64,
    virtual_size: u64,
    #[serde(default)]
    format_specific: FormatSpecific,
}

#[derive(Default, Deserialize)]
struct FormatSpecific {
    #[serde(default)]
    data: FormatData,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FormatData {
    #[serde(default)]
    data_file: Option<String>,
}

/// Inspects the image of each container disk of the VMI. `known` are the results for images that were inspected
/// already; `directory` is `--container-disk-dir`.
///
/// # Errors
/// [`DiskImageError`] when an image is missing, cannot be read within the limits, is neither qcow2 nor
/// raw, or names other files (a backing image, an external data file).
pub(crate) async fn inspect_container_disks(
    vmi: &Vmi,
    known: &BTreeMap<String, DiskInfo>,
    directory: &Path,
    tools: &DiskTools,
) -> Result<BTreeMap<String, DiskInfo>, DiskImageError> {
    let mut disks = known.clone();
    for (index, volume) in vmi.spec.volumes.iter().enumerate() {
        if volume.container_disk.is_none() || disks.contains_key(&volume.name) {
            continue;
        }
        let image = directory.join(format!("disk_{index}.img"));
        if !super::is_present(&image, tools).await? {
            return Err(DiskImageError::MissingBackingImage {
                volume: volume.name.clone(),
                path: image,
            });
        }
        disks.insert(
            volume.name.clone(),
            inspect(&volume.name, &image, tools).await?,
        );
    }
    Ok(disks)
}

/// Inspects one image.
///
/// # Errors
/// As for [`inspect_container_disks`]; the errors name `volume`.
pub(crate) async fn inspect(
    volume: &str,
    image: &Path,
    tools: &DiskTools,
) -> Result<DiskInfo, DiskImageError> {
    let arguments = [
        "--output".as_ref(),
        "json".as_ref(),
        "-U".as_ref(),
        image.as_os_str(),
    ];
    let output = qemu_img::run::<&OsStr>(tools, "info", image, &arguments).await?;
    let info: ImageInfo =
        serde_json::from_slice(&output).map_err(|error| DiskImageError::ImageInfo {
            image: image.to_owned(),
            message: error.to_string(),
        })?;
    match find_invalid_property(&info) {
        Some(reason) => Err(DiskImageError::InvalidContainerDisk {
            volume: volume.to_owned(),
            reason,
        }),
        None => Ok(DiskInfo {
            format: info.format,
            backing_file: info.backing_filename,
            actual_size: info.actual_size,
            virtual_size: info.virtual_size,
        }),
    }
}

/// What is invalid about the image. A qcow2 header that names other files would let the guest read these.
fn find_invalid_property(info: &ImageInfo) -> Option<String> {
    if !matches!(info.format.as_str(), "qcow2" | "raw") {
        return Some(format!("unsupported image format: {}", info.format));
    }
    if !info.backing_filename.is_empty() {
        return Some(format!(
            "expected no backing file, but found {}",
            info.backing_filename
        ));
    }
    let data_file = info.format_specific.data.data_file.as_ref()?;
    Some(format!(
        "expected no external data file, but found {data_file}"
    ))
}

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
