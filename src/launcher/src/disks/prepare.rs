//! Images made, or checked, one preparation after the other in [`prepare`]'s eyes and all at once
//! in the machine's.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use domain::local_disks::DiskPreparation;
use futures_util::future::try_join_all;
use tokio::time::timeout;

use super::{DiskError, DiskTools, qemu_img};
use crate::places::QEMU_USER;

/// KubeVirt's mode of overlays.
const OVERLAY_MODE: u32 = 0o640;
/// What qemu-img's own images have.
const EMPTY_DISK_MODE: u32 = 0o644;

/// Puts everything in place. Images that are there already stay as they are, so that a repeated
/// start keeps what the guest has written. Dropping the future leaves no half image under its name.
///
/// # Errors
/// The first [`DiskError`]; what else was under way is given up.
pub async fn prepare(preparations: &[DiskPreparation], tools: &DiskTools) -> Result<(), DiskError> {
    try_join_all(
        preparations
            .iter()
            .map(|preparation| one(preparation, tools)),
    )
    .await?;
    Ok(())
}

async fn one(preparation: &DiskPreparation, tools: &DiskTools) -> Result<(), DiskError> {
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
        DiskPreparation::CloudInitIso { path, .. } => create_parent(Path::new(path)),
        DiskPreparation::KernelBoot { artifacts } => {
            for artifact in artifacts {
                require_artifact(Path::new(artifact), tools).await?;
            }
            Ok(())
        }
    }
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

/// A qcow2 image on its way into place.
struct Image {
    path: PathBuf,
    part: PathBuf,
    mode: u32,
}

impl Image {
    fn new(path: &str, mode: u32) -> Self {
        Self {
            path: path.into(),
            part: format!("{path}.part").into(),
            mode,
        }
    }

    /// `qemu-img create` under another name, then owner, mode and at last its own name.
    async fn create(
        &self,
        options: &[OsString],
        size: &[OsString],
        tools: &DiskTools,
    ) -> Result<(), DiskError> {
        if is_there(&self.path, tools).await? {
            return give(&self.path);
        }
        create_parent(&self.path)?;
        remove_rest(&self.part)?;
        let mut arguments: Vec<&OsStr> = vec!["-q".as_ref(), "-f".as_ref(), "qcow2".as_ref()];
        arguments.extend(options.iter().map(OsString::as_os_str));
        arguments.push(self.part.as_os_str());
        arguments.extend(size.iter().map(OsString::as_os_str));
        qemu_img::run(tools, "create", &self.path, &arguments).await?;
        self.settle()
    }

    fn settle(&self) -> Result<(), DiskError> {
        fs::set_permissions(&self.part, Permissions::from_mode(self.mode))
            .map_err(|source| failed("setting the mode of", &self.part, source))?;
        give(&self.part)?;
        fs::rename(&self.part, &self.path)
            .map_err(|source| failed("putting in place", &self.path, source))
    }
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

fn create_parent(path: &Path) -> Result<(), DiskError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(|source| failed("creating the directory", parent, source))
}

/// What a start that was cut short has left.
fn remove_rest(part: &Path) -> Result<(), DiskError> {
    match fs::remove_file(part) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", part, source))
        }
        _ => Ok(()),
    }
}

/// Hands a file to QEMU's user. Whoever is not root keeps it: QEMU then runs as the same user.
pub(crate) fn give(path: &Path) -> Result<(), DiskError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    std::os::unix::fs::chown(path, Some(QEMU_USER), Some(QEMU_USER)).map_err(|source| {
        DiskError::Give {
            path: path.to_owned(),
            source,
        }
    })
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> DiskError {
    DiskError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}
