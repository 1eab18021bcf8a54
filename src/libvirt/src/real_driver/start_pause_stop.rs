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
        let mut numbers: Vec<c_int> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let count = c_uint::try_from(numbers.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the domain is valid, the group NUL-terminated. `count` numbers are there, each of a
        // file that its borrow keeps open during the call; libvirt sends copies and keeps no number.
        check(unsafe {
            sys::virDomainFDAssociate(
                self.as_ptr(),
                group.as_ptr(),
                count,
                numbers.as_mut_ptr(),
                0,
            )
        })
        .map(drop)
    }

    fn start(&self, how: StartOptions) -> Result<()> {
        let flags = flag(how.paused, sys::VIR_DOMAIN_START_PAUSED)
            | flag(how.reset_nvram, sys::VIR_DOMAIN_START_RESET_NVRAM);
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

    fn reboot(&self, by: RebootMode) -> Result<()> {
        let flags = match by {
            RebootMode::Acpi => sys::VIR_DOMAIN_REBOOT_ACPI_POWER_BTN,
            RebootMode::Agent => sys::VIR_DOMAIN_REBOOT_GUEST_AGENT,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainReboot(self.as_ptr(), flags) }).map(drop)
    }

    fn shutdown(&self, by: ShutdownMode) -> Result<()> {
        let flags = match by {
            ShutdownMode::Acpi => sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN,
            ShutdownMode::Agent => sys::VIR_DOMAIN_SHUTDOWN_GUEST_AGENT,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainShutdownFlags(self.as_ptr(), flags) }).map(drop)
    }

    fn destroy(&self, how: DestroyMode) -> Result<()> {
        let flags = match how {
            DestroyMode::Forceful => sys::VIR_DOMAIN_DESTROY_DEFAULT,
            DestroyMode::Graceful => sys::VIR_DOMAIN_DESTROY_GRACEFUL,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainDestroyFlags(self.as_ptr(), flags) }).map(drop)
    }
}

fn flag(wanted: bool, flag: c_uint) -> c_uint {
    if wanted { flag } else { 0 }
}
