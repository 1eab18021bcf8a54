//! Makes or checks all images that a VM's disks need, concurrently.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use domain::required_files::RequiredFile;
use futures_util::future::try_join_all;

use super::create_qcow2_image::Qcow2Image;
use super::file_presence::is_present;
use super::{DiskError, DiskTools, changed_block_tracking, downward_metrics, host_disk};
use crate::atomic_file::{self, FileAttrs};
use crate::blocking;
use crate::boot::config_disks;

/// KubeVirt's mode of overlays.
const OVERLAY_MODE: u32 = 0o640;
/// What qemu-img's own images have.
const EMPTY_DISK_MODE: u32 = 0o644;
/// Files that this process writes itself: none is larger than a few mebibytes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Every start writes a new file. It may hold passwords.
const IGNITION_ATTRS: FileAttrs = FileAttrs {
    mode: 0o640,
    durable: false,
};

/// Makes everything that `files` lists. Images that exist stay as they are, so that a repeated
/// start keeps what the guest has written. Dropping the future leaves no incomplete image under its name.
///
/// # Errors
/// The first [`DiskError`]; what else was under way is given up.
pub(crate) async fn make_files(files: &[RequiredFile], tools: &DiskTools) -> Result<(), DiskError> {
    let describes_another = |one: &&RequiredFile| matches!(one, RequiredFile::ChangedBlocks { .. });
    let (later, first): (Vec<_>, Vec<_>) = files.iter().partition(describes_another);
    for round in [first, later] {
        try_join_all(round.into_iter().map(|one| prepare_one(one, tools))).await?;
    }
    Ok(())
}

async fn prepare_one(file: &RequiredFile, tools: &DiskTools) -> Result<(), DiskError> {
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
            write("writing an image of configuration", move || {
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
            write("making a hostDisk", move || {
                host_disk::ensure(&volume, Path::new(&path), bytes)
            })
            .await
        }
        RequiredFile::ChangedBlocks {
            volume, path, data, ..
        } => changed_block_tracking::create(volume, path, Path::new(data), tools).await,
        RequiredFile::DownwardMetrics { path, .. } => {
            let path = path.clone();
            write("making the downward metrics disk", move || {
                Ok(downward_metrics::create(Path::new(&path))?)
            })
            .await
        }
        RequiredFile::Ignition { path, content } => {
            let (path, content) = (path.clone(), content.clone());
            write("writing the Ignition file", move || {
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

/// File system calls, off the runtime's threads.
async fn write(
    what: &'static str,
    work: impl FnOnce() -> Result<(), DiskError> + Send + 'static,
) -> Result<(), DiskError> {
    blocking::file_call(what, WRITE_TIMEOUT, work).await?
}

async fn require_backing(volume: &str, path: &Path, tools: &DiskTools) -> Result<(), DiskError> {
    if is_present(path, tools).await? {
        return Ok(());
    }
    Err(DiskError::NoBacking {
        volume: volume.to_owned(),
        path: path.to_owned(),
    })
}

async fn require_artifact(path: &Path, tools: &DiskTools) -> Result<(), DiskError> {
    if is_present(path, tools).await? {
        return Ok(());
    }
    Err(DiskError::NoKernelBootArtifact {
        path: path.to_owned(),
    })
}
