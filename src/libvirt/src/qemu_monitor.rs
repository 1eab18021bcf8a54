//! QEMU's own monitor, for the questions that libvirt has no call for.

use crate::error::Result;

/// The monitor of a running domain's QEMU.
pub trait QemuMonitor {
    /// Sends a QMP command (`{"execute":"qom-list",...}`), and returns QEMU's answer as JSON: `{"return":...}`, or
    /// `{"error":{"class":...,"desc":...}}` if QEMU refuses. libvirt does not notice what a command changes.
    fn qemu_command(&self, command: &str) -> Result<String>;
}
