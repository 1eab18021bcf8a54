//! Images made, or checked, one preparation after the other in [`prepare`]'s eyes and all at once
//! in the machine's.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use domain::local_disks::DiskPreparation;
use futures_util::future::try_join_all;
use tokio::time::timeout;

use super::image::Image;
use super::{DiskError, DiskTools, changed_blocks, downward_metrics, host_disk};
use crate::placing::{self, Placing};
use crate::{blocking, config_isos};

/// KubeVirt's mode of overlays.
const OVERLAY_MODE: u32 = 0o640;
/// What qemu-img's own images have.
const EMPTY_DISK_MODE: u32 = 0o644;
/// Files that this process writes itself: none is larger than a few mebibytes.
const WRITE: Duration = Duration::from_secs(10);
/// Every start writes it anew. It may hold passwords.
const IGNITION: Placing = Placing {
    mode: 0o640,
    kept: false,
};

/// Puts everything in place. Images that are there already stay as they are, so that a repeated
/// start keeps what the guest has written. Dropping the future leaves no half image under its name.
///
/// # Errors
/// The first [`DiskError`]; what else was under way is given up.
pub async fn prepare(preparations: &[DiskPreparation], tools: &DiskTools) -> Result<(), DiskError> {
    let describes_another =
        |one: &&DiskPreparation| matches!(one, DiskPreparation::ChangedBlocks { .. });
    let (later, first): (Vec<_>, Vec<_>) = preparations.iter().partition(describes_another);
    for round in [first, later] {
        try_join_all(round.into_iter().map(|one| put(one, tools))).await?;
    }
    Ok(())
}

async fn put(preparation: &DiskPreparation, tools: &DiskTools) -> Result<(), DiskError> {
    match preparation {
        DiskPreparation::EmptyDisk { path, bytes, .. } => {
            let image = Image::new(path, EMPTY_DISK_MODE);
            image.create(&[], &[bytes.to_string().into()], tools).await
        }
        DiskPreparation::Overlay {
            volume,
            path,
            backing,
            format,
        } => {
            require_backing(volume, Path::new(backing), tools).await?;
            let options = ["-b", backing, "-F", format].map(OsString::from);
            Image::new(path, OVERLAY_MODE)
                .create(&options, &[], tools)
                .await
        }
        DiskPreparation::CloudInitIso { path, .. } => Ok(placing::create_parent(Path::new(path))?),
        DiskPreparation::ConfigIso(iso) => {
            let iso = iso.clone();
            write("writing an image of configuration", move || {
                Ok(config_isos::write(&iso)?)
            })
            .await
        }
        DiskPreparation::HostDisk {
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
        DiskPreparation::ChangedBlocks {
            volume, path, data, ..
        } => changed_blocks::create(volume, path, Path::new(data), tools).await,
        DiskPreparation::DownwardMetrics { path, .. } => {
            let path = path.clone();
            write("making the downward metrics disk", move || {
                Ok(downward_metrics::create(Path::new(&path))?)
            })
            .await
        }
        DiskPreparation::Ignition { path, content } => {
            let (path, content) = (path.clone(), content.clone());
            write("writing the Ignition file", move || {
                let fill = |file: &mut std::fs::File| file.write_all(content.as_bytes());
                Ok(placing::place(Path::new(&path), IGNITION, fill)?)
            })
            .await
        }
        DiskPreparation::KernelBoot { artifacts } => {
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
    blocking::call(what, WRITE, work).await?
}

async fn require_backing(volume: &str, path: &Path, tools: &DiskTools) -> Result<(), DiskError> {
    if is_there(path, tools).await? {
        return Ok(());
    }
    Err(DiskError::NoBacking {
        volume: volume.to_owned(),
        path: path.to_owned(),
    })
}

async fn require_artifact(path: &Path, tools: &DiskTools) -> Result<(), DiskError> {
    if is_there(path, tools).await? {
        return Ok(());
    }
    Err(DiskError::NoKernelBootArtifact {
        path: path.to_owned(),
    })
}

/// Whether there is a file or device. Asked off the runtime's threads: an image may lie on a
/// network file system that hangs.
pub(super) async fn is_there(path: &Path, tools: &DiskTools) -> Result<bool, DiskError> {
    match timeout(tools.deadline, tokio::fs::metadata(path)).await {
        Ok(Ok(metadata)) => Ok(!metadata.is_dir()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(Err(source)) => Err(failed("looking at", path, source)),
        Err(_) => Err(DiskError::Deadline {
            what: "looking at",
            image: path.to_owned(),
            deadline: tools.deadline,
        }),
    }
}

pub(super) fn failed(what: &'static str, path: &Path, source: io::Error) -> DiskError {
    DiskError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}
