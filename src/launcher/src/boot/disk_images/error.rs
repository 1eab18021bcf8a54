//! What goes wrong with images.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::atomic_file::AtomicFileError;
use crate::blocking::NoAnswer;
use crate::boot::config_disks::ConfigIsoError;

/// A disk image could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The program is not installed.
    #[error("{program} not found: install it (Debian: qemu-utils, Fedora: qemu-img)")]
    NoQemuImg {
        /// What was looked for.
        program: PathBuf,
    },
    /// It could not be run.
    #[error("running {program}: {source}")]
    Run {
        /// The program.
        program: PathBuf,
        /// Why it could not be run.
        source: io::Error,
    },
    /// It ended badly.
    #[error("qemu-img {verb} {image}: {status}: {message}")]
    QemuImg {
        /// `create` or `info`.
        verb: &'static str,
        /// The image.
        image: PathBuf,
        /// How it ended.
        status: String,
        /// Its output.
        message: String,
    },
    /// It, or the file system below it, took too long.
    #[error("{what} {image} took longer than {deadline:?}: is its file system reachable?")]
    Deadline {
        /// What was done.
        what: &'static str,
        /// The image.
        image: PathBuf,
        /// How long it may take.
        deadline: Duration,
    },
    /// Its output about an image cannot be parsed.
    #[error("qemu-img info {image}: {message}")]
    ImageInfo {
        /// The image.
        image: PathBuf,
        /// Why it makes no sense.
        message: String,
    },
    /// A file system call failed.
    #[error("{what} {path}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file that this process writes is not in place.
    #[error(transparent)]
    AtomicFile(#[from] AtomicFileError),
    /// An image of configuration.
    #[error(transparent)]
    ConfigIso(#[from] ConfigIsoError),
    /// A file system hangs.
    #[error("{0}: is its file system reachable?")]
    NoAnswer(#[from] NoAnswer),
    /// An image on the node is not an image.
    #[error(
        "volume {volume}: {path} is {what}: a hostDisk must be a file, and links are not followed"
    )]
    NoHostDisk {
        /// The volume.
        volume: String,
        /// Where the image should be.
        path: PathBuf,
        /// What is there: `a link`, `a directory`, ...
        what: &'static str,
    },
    /// The data that an image of bitmaps describes are not there.
    #[error("volume {volume}: no image at {path}, whose changed blocks are to be tracked")]
    MissingImage {
        /// The volume.
        volume: String,
        /// Where the data should be.
        path: PathBuf,
    },
    /// There is no room for an image on the node.
    #[error(
        "volume {volume}: unable to create {path}, not enough space, demanded size {asked} B is bigger than \
         available space {free} B, also after taking {tolerance} % toleration into account"
    )]
    NoRoom {
        /// The volume.
        volume: String,
        /// Where the image should be.
        path: PathBuf,
        /// The size it should have, in bytes.
        asked: u64,
        /// The room there is, in bytes.
        free: u64,
        /// How much less than asked for would do, in percent.
        tolerance: u64,
    },
    /// The image under an overlay is not there.
    #[error(
        "volume {volume}: no image at {path}: virt-handler mounts container disks before it starts the VM"
    )]
    NoBacking {
        /// The volume.
        volume: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// Kernel or initrd is not there.
    #[error(
        "kernel boot: no file at {path}: it must be in the image named by firmware.kernelBoot.container"
    )]
    NoKernelBootArtifact {
        /// Where it should be.
        path: PathBuf,
    },
    /// An image that could reach beyond itself, or of a format that is not served.
    #[error("invalid image in containerDisk {volume}: {reason}")]
    Refused {
        /// The volume.
        volume: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl DiskError {
    /// The error of a call to the file system.
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> DiskError {
        DiskError::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }
}
