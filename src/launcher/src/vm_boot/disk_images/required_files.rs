//! Makes or checks all files that a VM's start requires (disk images, Ignition, kernel and initrd), concurrently.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use domain::required_files::RequiredFile;
use futures_util::future::try_join_all;

use super::file_presence::is_present;
use super::pending_qcow2_image::Qcow2Image;
use super::{DiskImageError, DiskTools, changed_block_tracking, downward_metrics_disk, host_disk};
use crate::atomic_file::{self, FileAttrs};
use crate::blocking;
use crate::vm_boot::config_disks;

/// Mode of overlays, as in KubeVirt.
const OVERLAY_MODE: u32 = 0o640;
/// Mode of empty disks: the one that qemu-img gives to its images.
const EMPTY_DISK_MODE: u32 = 0o644;
/// How long writing a file may take that the launcher writes itself: none is larger than a few mebibytes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Other users cannot read the file, which may hold passwords. It need not survive a crash of the node, since every
/// start writes a new one.
const IGNITION_ATTRS: FileAttrs = FileAttrs {
    mode: 0o640,
    durable: false,
};

/// Makes or checks all `files`. Existing images are kept, so that a repeated start does not lose the guest's data.
/// Dropping the future leaves no incomplete image under its final name.
///
/// # Errors
/// The first [`DiskImageError`]; the other files are given up.
pub(crate) async fn prepare_required_files(
    files: &[RequiredFile],
    tools: &DiskTools,
) -> Result<(), DiskImageError> {
    // An image for changed blocks needs its data file, which may be one of the other files.
    let needs_data_file = |file: &&RequiredFile| matches!(file, RequiredFile::ChangedBlocks { .. });
    let (second, first): (Vec<_>, Vec<_>) = files.iter().partition(needs_data_file);
    for files in [first, second] {
        try_join_all(files.into_iter().map(|file| prepare_one(file, tools))).await?;
    }
    Ok(())
}

async fn prepare_one(file: &RequiredFile, tools: &DiskTools) -> Result<(), DiskImageError> {
    match file {
        RequiredFile::EmptyDisk { path, bytes, .. } => {
            let image = Qcow2Image::new(path, EMPTY_DISK_MODE);
            image.create(&[], &[bytes.to_string().into()], tools).await
        }
        RequiredFile::Overlay {
            volume,
            path,
            backing,
            format,
        } => {
            require_backing(volume, Path::new(backing), tools).await?;
            let options = ["-b", backing, "-F", format].map(OsString::from);
            Qcow2Image::new(path, OVERLAY_MODE)
                .create(&options, &[], tools)
                .await
        }
        RequiredFile::CloudInitIso { path, .. } => Ok(atomic_file::create_parent(Path::new(path))?),
        RequiredFile::ConfigIso(iso) => {
            let iso = iso.clone();
            call_file_system("writing an image of configuration", move || {
                Ok(config_disks::write(&iso)?)
            })
            .await
        }
        RequiredFile::HostDisk {
            volume,
            path,
            bytes,
        } => {
            let (volume, path, bytes) = (volume.clone(), path.clone(), *bytes);
            call_file_system("making a hostDisk", move || {
                host_disk::ensure(&volume, Path::new(&path), bytes)
            })
            .await
        }
        RequiredFile::ChangedBlocks {
            volume, path, data, ..
        } => changed_block_tracking::create(volume, path, Path::new(data), tools).await,
        RequiredFile::DownwardMetrics { path, .. } => {
            let path = path.clone();
            call_file_system("making the downward metrics disk", move || {
                Ok(downward_metrics_disk::create(Path::new(&path))?)
            })
            .await
        }
        RequiredFile::Ignition { path, content } => {
            let (path, content) = (path.clone(), content.clone());
            call_file_system("writing the Ignition file", move || {
                let fill = |file: &mut std::fs::File| file.write_all(content.as_bytes());
                Ok(atomic_file::write(Path::new(&path), IGNITION_ATTRS, fill)?)
            })
            .await
        }
        RequiredFile::KernelBoot { artifacts } => {
            for artifact in artifacts {
                require_artifact(Path::new(artifact), tools).await?;
            }
            Ok(())
        }
    }
}

/// Runs file system calls off the async workers.
async fn call_file_system(
    what: &'static str,
    work: impl FnOnce() -> Result<(), DiskImageError> + Send + 'static,
) -> Result<(), DiskImageError> {
    blocking::file_call(what, WRITE_TIMEOUT, work).await?
}

async fn require_backing(
    volume: &str,
    path: &Path,
    tools: &DiskTools,
) -> Result<(), DiskImageError> {
    if is_present(path, tools).await? {
        return Ok(());
    }
    Err(DiskImageError::MissingBackingImage {
        volume: volume.to_owned(),
        path: path.to_owned(),
    })
}

async fn require_artifact(path: &Path, tools: &DiskTools) -> Result<(), DiskImageError> {
    if is_present(path, tools).await? {
        return Ok(());
    }
    Err(DiskImageError::MissingKernelBootFile {
        path: path.to_owned(),
    })
}
