//! What goes wrong with images.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::places::QEMU_USER;

/// An image is not in place.
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
        /// What it said.
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
    /// What it said about an image makes no sense.
    #[error("qemu-img info {image}: {message}")]
    Information {
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
    /// A file could not be given to QEMU's user.
    #[error("giving {path} to uid {QEMU_USER}: {source}")]
    Give {
        /// The file.
        path: PathBuf,
        /// Why it could not be.
        source: io::Error,
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
