//! Images put in place before a VM starts: empty disks, overlays of images that must not be written
//! to, the checks on what came from elsewhere.
//!
//! What is to be done comes as data from [`domain::local_disks`]; the work is qemu-img's, as a child
//! with a deadline. Whoever made a container disk is not trusted: the child that opens it has
//! limited memory and processor time. An image appears under its name only when it is complete, so
//! a start that was cut short goes on where it stopped.

mod changed_blocks;
mod direct_io;
mod downward_metrics;
mod error;
mod expand;
mod host_disk;
mod image;
mod inspect;
mod prepare;
mod qemu_img;

use std::path::PathBuf;
use std::time::Duration;

pub use direct_io::DirectIo;
pub use error::DiskError;
pub use expand::{expand, possible_size};
pub use inspect::{container_disks, inspect};
pub use prepare::prepare;

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
