//! Makes the disk images that a start needs, such as empty disks and overlays of images that must not be written to,
//! and inspects untrusted images.
//!
//! [`domain::required_files`] decides which files are needed. qemu-img makes the images, as a child process with a
//! deadline. Container disks are not trusted: memory and CPU time of the child that opens them are limited. An image
//! gets its final name only when it is complete, so that a repeated start continues where an interrupted one stopped.

mod changed_block_tracking;
mod create_qcow2_image;
mod downward_metrics_disk;
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

pub(crate) use driver_mode_probe::DriverModeProbe;
pub(crate) use error::DiskImageError;
pub(crate) use expand_images::{expand, possible_size};
pub(crate) use inspect_untrusted_image::inspect_container_disks;
pub(crate) use make_disk_images::prepare_required_files;

/// How qemu-img is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskTools {
    /// The program: a path, or a name to look up in `PATH`.
    pub qemu_img: PathBuf,
    /// Limit of the child's address space in bytes: `--disk-memory-limit`.
    pub memory_limit: u64,
    /// Limit of the child's CPU time.
    pub cpu_limit: Duration,
    /// How long one run of qemu-img, or a check whether a file exists, may take.
    pub deadline: Duration,
}

impl DiskTools {
    /// Uses the installed qemu-img with KubeVirt's 10 s of CPU time, and a deadline of 15 s: less than the 20 s after
    /// which virt-handler calls again.
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
