//! Disk images that a start needs: empty disks, overlays of images that must not be written to, and checks of
//! images of unknown origin.
//!
//! [`domain::required_files`] says what to make; qemu-img makes it, as a child with a deadline. Container disks are not
//! trusted: the child that opens one has limited memory and processor time. An image gets its name only when it is
//! complete, so that a repeated start continues where an interrupted one stopped.

mod changed_block_tracking;
mod create_qcow2_image;
mod downward_metrics;
mod driver_mode_probe;
mod error;
mod expand_images;
mod file_presence;
mod host_disk;
mod inspect_untrusted_image;
mod make_disk_images;
mod pending_image;
mod qcow2_header;
mod qemu_img;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use driver_mode_probe::DirectIo;
pub(crate) use error::DiskError;
pub(crate) use expand_images::{expand, possible_size};
pub(crate) use inspect_untrusted_image::container_disks;
pub(crate) use make_disk_images::make_files;

/// How qemu-img is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskTools {
    /// The program: a path, or a name to be looked up in PATH.
    pub qemu_img: PathBuf,
    /// Address space of a child that opens an image of unknown origin, in bytes;
    /// `--disk-memory-limit`.
    pub memory_limit: u64,
    /// Processor time of such a child.
    pub cpu_limit: Duration,
    /// How long one run, or one look at a file, may take.
    pub deadline: Duration,
}

impl DiskTools {
    /// The installed qemu-img, KubeVirt's 10 s of processor time, 15 s in all: less than the 20 s
    /// after which virt-handler calls again.
    pub fn new(memory_limit: u64) -> Self {
        Self {
            qemu_img: "qemu-img".into(),
            memory_limit,
            cpu_limit: Duration::from_secs(10),
            deadline: Duration::from_secs(15),
        }
    }
}

#[cfg(test)]
mod tests;
