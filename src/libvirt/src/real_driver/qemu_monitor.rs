//! The monitor of a domain's QEMU.

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, take_string};
use super::domain_handle::RealDomain;
use crate::error::Result;
use crate::qemu_monitor::QemuMonitor;

impl QemuMonitor for RealDomain {
    fn qemu_command(&self, command: &str) -> Result<String> {
        let command = c_string("monitor command", command)?;
        let mut answer = std::ptr::null_mut();
        // SAFETY: the domain is valid, the command NUL-terminated, and the pointer to the answer is valid.
        check(unsafe {
            sys::virDomainQemuMonitorCommand(
                self.as_ptr(),
                command.as_ptr(),
                &raw mut answer,
                sys::VIR_DOMAIN_QEMU_MONITOR_COMMAND_DEFAULT,
            )
        })?;
        // SAFETY: libvirt has allocated the NUL-terminated answer for the caller.
        unsafe { take_string(answer) }
    }
}
