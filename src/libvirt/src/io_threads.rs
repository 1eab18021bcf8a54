//! IO threads of a domain.

use crate::devices::Affect;
use crate::error::Result;

/// The threads in which QEMU serves disks.
pub trait IoThreads {
    /// Adds an IO thread with this id, which is at least 1 and which no other thread of the domain has.
    fn add_io_thread(&self, id: u32, to: Affect) -> Result<()>;
}
