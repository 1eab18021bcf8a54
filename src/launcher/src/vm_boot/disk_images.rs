//! Makes the disk images that a start needs, such as empty disks and overlays of images that must not be written to,
//! and inspects untrusted images.
//!
//! [`domain::required_files`] decides which files are needed. qemu-img makes the images, as a child process with a
//! deadline. Container disks are not trusted: memory and CPU time of the child that opens them are limited. An image
//! gets its final name only when it is complete, so that a repeated start continues where an interrupted one stopped.

mod changed_block_tracking;
mod container_disk_inspection;
mod downward_metrics_disk;
mod host_disk;
mod image_expansion;
mod qemu_img;

use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::required_files::RequiredFile;
use futures_util::future::try_join_all;

use crate::atomic_file::{AtomicFileError, FileAttrs};
use crate::blocking::NoAnswer;
use crate::vm_boot::config_disks;
use crate::vm_boot::config_disks::ConfigDiskError;
use crate::{atomic_file, blocking};
pub(crate) use container_disk_inspection::{DriverModeProbe, inspect_container_disks};
pub(crate) use image_expansion::{expand, possible_size};
pub(crate) use qemu_img::DiskTools;
use qemu_img::Qcow2Image;

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

/// Whether a file or device exists at the path; false for a directory. Runs off the async workers: an image may be on a
/// network file system that hangs.
async fn is_present(path: &Path, tools: &DiskTools) -> Result<bool, DiskImageError> {
    let image = path.to_owned();
    let read_metadata = move || std::fs::metadata(image);
    match blocking::file_call("looking at an image", tools.deadline, read_metadata).await {
        Ok(Ok(metadata)) => Ok(!metadata.is_dir()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Ok(Err(source)) => Err(DiskImageError::io("looking at", path, source)),
        Err(NoAnswer::Timeout { .. }) => Err(DiskImageError::Timeout {
            what: "looking at",
            image: path.to_owned(),
            deadline: tools.deadline,
        }),
        Err(error) => Err(error.into()),
    }
}

/// A disk image could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum DiskImageError {
    /// qemu-img is not installed.
    #[error("{program} not found: install it (Debian: qemu-utils, Fedora: qemu-img)")]
    QemuImgNotFound {
        /// The path or name of qemu-img.
        program: PathBuf,
    },
    /// qemu-img could not be started, or its output could not be read.
    #[error("running {program}: {source}")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// qemu-img exited with an error.
    #[error("qemu-img {verb} {image}: {status}: {message}")]
    QemuImg {
        /// The subcommand, such as `create`.
        verb: &'static str,
        /// The image.
        image: PathBuf,
        /// The exit status.
        status: String,
        /// The error output.
        message: String,
    },
    /// qemu-img, or a look at an image, timed out.
    #[error("{what} {image} took longer than {deadline:?}: is its file system reachable?")]
    Timeout {
        /// The operation.
        what: &'static str,
        /// The image.
        image: PathBuf,
        /// How long the operation may take.
        deadline: Duration,
    },
    /// The output of `qemu-img info` could not be parsed.
    #[error("qemu-img info {image}: {message}")]
    ImageInfo {
        /// The image.
        image: PathBuf,
        /// The parse error.
        message: String,
    },
    /// A file system call failed.
    #[error("{what} {path}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// A file that the launcher writes itself could not be written.
    #[error(transparent)]
    AtomicFile(#[from] AtomicFileError),
    /// The image of a config disk could not be written.
    #[error(transparent)]
    ConfigIso(#[from] ConfigDiskError),
    /// Another file system call timed out.
    #[error("{0}: is its file system reachable?")]
    NoAnswer(#[from] NoAnswer),
    /// The path of a hostDisk is neither a file nor a block device.
    #[error(
        "volume {volume}: {path} is {what}: a hostDisk must be a file, and links are not followed"
    )]
    HostDiskNotAFile {
        /// The volume.
        volume: String,
        /// The path of the hostDisk.
        path: PathBuf,
        /// What the path is: `a link`, `a directory`, ...
        what: &'static str,
    },
    /// The data file whose changed blocks are to be tracked does not exist.
    #[error("volume {volume}: no image at {path}, whose changed blocks are to be tracked")]
    MissingTrackedImage {
        /// The volume.
        volume: String,
        /// The expected path of the data file.
        path: PathBuf,
    },
    /// The file system has not enough space for a hostDisk.
    #[error(
        "volume {volume}: unable to create {path}, not enough space, demanded size {requested} B is bigger than \
         available space {available} B, also after taking {tolerance} % toleration into account"
    )]
    NotEnoughSpace {
        /// The volume.
        volume: String,
        /// The path of the hostDisk.
        path: PathBuf,
        /// The requested size in bytes.
        requested: u64,
        /// The available space in bytes.
        available: u64,
        /// By how many percent the size may be less than requested.
        tolerance: u64,
    },
    /// The backing image of an overlay does not exist.
    #[error(
        "volume {volume}: no image at {path}: virt-handler mounts container disks before it starts the VM"
    )]
    MissingBackingImage {
        /// The volume.
        volume: String,
        /// The expected path of the image.
        path: PathBuf,
    },
    /// The kernel or initrd does not exist.
    #[error(
        "kernel boot: no file at {path}: it must be in the image named by firmware.kernelBoot.container"
    )]
    MissingKernelBootFile {
        /// The expected path of the file.
        path: PathBuf,
    },
    /// The image of a container disk refers to other files, or has an unsupported format.
    #[error("invalid image in containerDisk {volume}: {reason}")]
    InvalidContainerDisk {
        /// The volume.
        volume: String,
        /// What is invalid.
        reason: String,
    },
}

impl DiskImageError {
    /// The error of a call to the file system.
    fn io(what: &'static str, path: &Path, source: io::Error) -> DiskImageError {
        DiskImageError::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests;
