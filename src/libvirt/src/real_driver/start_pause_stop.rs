//! Starting, pausing and stopping a domain.

use std::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd};

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check};
use super::domain_handle::RealDomain;
use crate::error::Result;
use crate::start_pause_stop::{DestroyMode, Power, RebootMode, ShutdownMode, StartOptions};

impl Power for RealDomain {
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()> {
        let group = c_string("group of open files", group)?;
        let mut descriptors: Vec<c_int> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let count = c_uint::try_from(descriptors.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the domain is valid, the group NUL-terminated. The list has `count` file descriptors, whose files the
        // borrows keep open during the call; libvirt sends copies and keeps no descriptor.
        check(unsafe {
            sys::virDomainFDAssociate(
                self.as_ptr(),
                group.as_ptr(),
                count,
                descriptors.as_mut_ptr(),
                0,
            )
        })
        .map(drop)
    }

    fn start(&self, options: StartOptions) -> Result<()> {
        let flags = flag_if(options.paused, sys::VIR_DOMAIN_START_PAUSED)
            | flag_if(options.reset_nvram, sys::VIR_DOMAIN_START_RESET_NVRAM);
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainCreateWithFlags(self.as_ptr(), flags) }).map(drop)
    }

    fn suspend(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainSuspend(self.as_ptr()) }).map(drop)
    }

    fn resume(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainResume(self.as_ptr()) }).map(drop)
    }

    fn reset(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainReset(self.as_ptr(), 0) }).map(drop)
    }

    fn reboot(&self, mode: RebootMode) -> Result<()> {
        let flags = match mode {
            RebootMode::Acpi => sys::VIR_DOMAIN_REBOOT_ACPI_POWER_BTN,
            RebootMode::Agent => sys::VIR_DOMAIN_REBOOT_GUEST_AGENT,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainReboot(self.as_ptr(), flags) }).map(drop)
    }

    fn shutdown(&self, mode: ShutdownMode) -> Result<()> {
        let flags = match mode {
            ShutdownMode::Acpi => sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN,
            ShutdownMode::Agent => sys::VIR_DOMAIN_SHUTDOWN_GUEST_AGENT,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainShutdownFlags(self.as_ptr(), flags) }).map(drop)
    }

    fn destroy(&self, mode: DestroyMode) -> Result<()> {
        let flags = match mode {
            DestroyMode::Forceful => sys::VIR_DOMAIN_DESTROY_DEFAULT,
            DestroyMode::Graceful => sys::VIR_DOMAIN_DESTROY_GRACEFUL,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainDestroyFlags(self.as_ptr(), flags) }).map(drop)
    }
}

fn flag_if(is_set: bool, flag: c_uint) -> c_uint {
    if is_set { flag } else { 0 }
}
