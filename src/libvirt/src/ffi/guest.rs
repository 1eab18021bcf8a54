//! A domain of a connection.

use std::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use virt_sys as sys;

use super::call::{c_string, check, copy_string, optional_c_string, pointer, take_string};
use super::connection::Connection;
use super::guest_stats;
use crate::error::{Result, code};
use crate::hypervisor::{
    Affect, Definition, Destroy, Files, Guest, Metadata, Power, RebootMode, ShutdownMode, Start,
    Undefine, XmlKind,
};
use crate::state::State;
use crate::stats::GuestStats;

/// A domain, with a reference of its own to it and to its connection.
pub(super) struct RealGuest {
    connection: Arc<Connection>,
    raw: sys::virDomainPtr,
    name: String,
    uuid: String,
}

// SAFETY: libvirt's domain handles may be used from any thread, by several at once.
unsafe impl Send for RealGuest {}
// SAFETY: as above.
unsafe impl Sync for RealGuest {}

impl RealGuest {
    /// Takes over a domain.
    ///
    /// # Safety
    /// `raw` is a domain of `connection`, and its reference is the caller's to give.
    pub(super) unsafe fn own(connection: Arc<Connection>, raw: sys::virDomainPtr) -> Result<Self> {
        let mut guest = RealGuest {
            connection,
            raw,
            name: String::new(),
            uuid: String::new(),
        };
        // SAFETY: the domain is valid; its name lives as long as it does.
        guest.name = unsafe { copy_string(sys::virDomainGetName(raw)) };
        guest.uuid = guest.read_uuid()?;
        Ok(guest)
    }

    fn read_uuid(&self) -> Result<String> {
        let mut text = [0; sys::VIR_UUID_STRING_BUFLEN as usize];
        // SAFETY: the domain is valid, and the buffer has the size that libvirt asks for.
        check(unsafe { sys::virDomainGetUUIDString(self.raw, text.as_mut_ptr()) })?;
        // SAFETY: libvirt has written a NUL-terminated text into the buffer.
        Ok(unsafe { copy_string(text.as_ptr()) })
    }

    /// The pointer, for calls; valid while `self` is.
    pub(super) fn as_ptr(&self) -> sys::virDomainPtr {
        self.raw
    }

    /// The connection it belongs to.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for RealGuest {
    fn drop(&mut self) {
        // SAFETY: the reference is this handle's own, and this is its last use.
        unsafe { sys::virDomainFree(self.raw) };
    }
}

impl Guest for RealGuest {
    fn name(&self) -> &str {
        &self.name
    }

    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn state(&self) -> Result<State> {
        let (mut state, mut reason) = (0, 0);
        // SAFETY: the domain is valid, and the results have places to go.
        check(unsafe { sys::virDomainGetState(self.raw, &raw mut state, &raw mut reason, 0) })?;
        Ok(State::decode(state, reason))
    }

    fn stats(&self) -> Result<Option<GuestStats>> {
        guest_stats::read(self)
    }

    fn agent_command(&self, json: &str, timeout: Duration) -> Result<String> {
        let command = c_string("agent command", json)?;
        let seconds = agent_seconds(timeout);
        // SAFETY: the domain is valid, the command NUL-terminated; the answer is the caller's.
        unsafe {
            take_string(sys::virDomainQemuAgentCommand(
                self.raw,
                command.as_ptr(),
                seconds,
                0,
            ))
        }
    }

    fn set_time(&self, now: Duration) -> Result<()> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainSetTime(self.raw, seconds, now.subsec_nanos(), 0) }).map(drop)
    }
}

/// Whole seconds, rounded up: zero would mean "do not wait", and negative ones "for ever".
fn agent_seconds(timeout: Duration) -> i32 {
    let up = timeout
        .as_secs()
        .saturating_add(u64::from(timeout.subsec_nanos() > 0));
    i32::try_from(up.max(1)).unwrap_or(i32::MAX)
}

impl Power for RealGuest {
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()> {
        let group = c_string("group of open files", group)?;
        let mut numbers: Vec<c_int> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let count = c_uint::try_from(numbers.len()).unwrap_or(c_uint::MAX);
        // SAFETY: the domain is valid, the group NUL-terminated. `count` numbers are there, each of a
        // file that its borrow keeps open during the call; libvirt sends copies and keeps no number.
        check(unsafe {
            sys::virDomainFDAssociate(self.raw, group.as_ptr(), count, numbers.as_mut_ptr(), 0)
        })
        .map(drop)
    }

    fn start(&self, how: Start) -> Result<()> {
        let flags = flag(how.paused, sys::VIR_DOMAIN_START_PAUSED)
            | flag(how.reset_nvram, sys::VIR_DOMAIN_START_RESET_NVRAM);
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainCreateWithFlags(self.raw, flags) }).map(drop)
    }

    fn suspend(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainSuspend(self.raw) }).map(drop)
    }

    fn resume(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainResume(self.raw) }).map(drop)
    }

    fn reset(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainReset(self.raw, 0) }).map(drop)
    }

    fn reboot(&self, by: RebootMode) -> Result<()> {
        let flags = match by {
            RebootMode::Default => sys::VIR_DOMAIN_REBOOT_DEFAULT,
            RebootMode::Acpi => sys::VIR_DOMAIN_REBOOT_ACPI_POWER_BTN,
            RebootMode::Agent => sys::VIR_DOMAIN_REBOOT_GUEST_AGENT,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainReboot(self.raw, flags) }).map(drop)
    }

    fn shutdown(&self, by: ShutdownMode) -> Result<()> {
        let flags = match by {
            ShutdownMode::Default => sys::VIR_DOMAIN_SHUTDOWN_DEFAULT,
            ShutdownMode::Acpi => sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN,
            ShutdownMode::Agent => sys::VIR_DOMAIN_SHUTDOWN_GUEST_AGENT,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainShutdownFlags(self.raw, flags) }).map(drop)
    }

    fn destroy(&self, how: Destroy) -> Result<()> {
        let flags = match how {
            Destroy::Forceful => sys::VIR_DOMAIN_DESTROY_DEFAULT,
            Destroy::Graceful => sys::VIR_DOMAIN_DESTROY_GRACEFUL,
        };
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainDestroyFlags(self.raw, flags) }).map(drop)
    }
}

impl Definition for RealGuest {
    fn xml(&self, kind: XmlKind) -> Result<String> {
        let flags = match kind {
            XmlKind::Active => 0,
            XmlKind::Inactive => sys::VIR_DOMAIN_XML_INACTIVE,
            XmlKind::Migratable => sys::VIR_DOMAIN_XML_MIGRATABLE,
        };
        // SAFETY: the domain is valid; the string it returns is the caller's.
        unsafe { take_string(sys::virDomainGetXMLDesc(self.raw, flags)) }
    }

    fn undefine(&self, what: Undefine) -> Result<()> {
        // SAFETY: the domain is valid.
        let undefine = |flags| check(unsafe { sys::virDomainUndefineFlags(self.raw, flags) });
        match undefine(undefine_flags(what)) {
            // A driver that does not know the flags (libvirt's test driver) has no such files.
            Err(error) if error.code == code::INVALID_ARG => undefine(0),
            done => done,
        }
        .map(drop)
    }

    fn metadata(&self, uri: &str, of: Affect) -> Result<Option<String>> {
        let uri = c_string("metadata namespace", uri)?;
        // SAFETY: the domain is valid, the namespace NUL-terminated; the string it returns is
        // the caller's.
        let element = unsafe {
            take_string(sys::virDomainGetMetadata(
                self.raw,
                METADATA_ELEMENT,
                uri.as_ptr(),
                affect_flags(of),
            ))
        };
        match element {
            Ok(xml) => Ok(Some(xml)),
            Err(error) if error.code == code::NO_DOMAIN_METADATA => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set_metadata(&self, metadata: Metadata<'_>, of: Affect) -> Result<()> {
        let xml = optional_c_string("metadata", metadata.xml)?;
        let prefix = c_string("metadata prefix", metadata.prefix)?;
        let uri = c_string("metadata namespace", metadata.uri)?;
        // SAFETY: the domain is valid, each text null or NUL-terminated and alive.
        check(unsafe {
            sys::virDomainSetMetadata(
                self.raw,
                METADATA_ELEMENT,
                pointer(&xml),
                prefix.as_ptr(),
                uri.as_ptr(),
                affect_flags(of),
            )
        })
        .map(drop)
    }
}

const METADATA_ELEMENT: i32 = sys::VIR_DOMAIN_METADATA_ELEMENT.cast_signed();

fn flag(wanted: bool, flag: c_uint) -> c_uint {
    if wanted { flag } else { 0 }
}

fn undefine_flags(what: Undefine) -> c_uint {
    let nvram = match what.nvram {
        Files::AsDefined => 0,
        Files::Keep => sys::VIR_DOMAIN_UNDEFINE_KEEP_NVRAM,
        Files::Remove => sys::VIR_DOMAIN_UNDEFINE_NVRAM,
    };
    let tpm = match what.tpm {
        Files::AsDefined => 0,
        Files::Keep => sys::VIR_DOMAIN_UNDEFINE_KEEP_TPM,
        Files::Remove => sys::VIR_DOMAIN_UNDEFINE_TPM,
    };
    // What libvirt itself remembers of checkpoints goes with the definition.
    nvram | tpm | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
}

fn affect_flags(of: Affect) -> c_uint {
    match of {
        Affect::Current => sys::VIR_DOMAIN_AFFECT_CURRENT,
        Affect::Live => sys::VIR_DOMAIN_AFFECT_LIVE,
        Affect::Config => sys::VIR_DOMAIN_AFFECT_CONFIG,
        Affect::LiveAndConfig => sys::VIR_DOMAIN_AFFECT_LIVE | sys::VIR_DOMAIN_AFFECT_CONFIG,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_timeouts_are_whole_seconds_and_never_the_special_values() {
        assert_eq!(agent_seconds(Duration::ZERO), 1);
        assert_eq!(agent_seconds(Duration::from_millis(1)), 1);
        assert_eq!(agent_seconds(Duration::from_millis(1001)), 2);
        assert_eq!(agent_seconds(Duration::MAX), i32::MAX);
    }

    #[test]
    fn kubevirts_undefine_keeps_nvram() {
        // KEEP_NVRAM | CHECKPOINTS_METADATA, as KubeVirt's manager passes them.
        assert_eq!(undefine_flags(Undefine::KEEP), 8 | 16);
    }
}
