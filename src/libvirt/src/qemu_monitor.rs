//! QEMU's monitor, for queries that libvirt has no call for.

use crate::error::Result;

/// The monitor of a running domain's QEMU.
pub trait QemuMonitor {
    /// Sends a QMP command (`{"execute":"qom-list",...}`), and returns QEMU's response as JSON: `{"return":...}`, or
    /// `{"error":{"class":...,"desc":...}}` if QEMU reports an error. libvirt does not notice what a command changes.
    fn qemu_command(&self, command: &str) -> Result<String>;
}
