//! Errors of preparing disk images.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::atomic_file::AtomicFileError;
use crate::blocking::NoAnswer;
use crate::vm_boot::config_disks::ConfigDiskError;

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
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> DiskImageError {
        DiskImageError::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }
}
