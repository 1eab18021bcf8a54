//! Inspects the untrusted images of container disks with qemu-img before QEMU opens them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use kubevirt_api::virtual_machine_options::DiskInfo;
use kubevirt_api::vmi::Vmi;
use serde::Deserialize;

use super::{DiskImageError, DiskTools, qemu_img};

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
        if !super::file_presence::is_present(&image, tools).await? {
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
