//! Starting, pausing and stopping a domain.

use std::os::fd::BorrowedFd;

use crate::error::Result;

/// Starting, pausing and stopping.
pub trait Power {
    /// Associates open files with the domain, for elements that refer to them by `fdgroup`.
    ///
    /// libvirt receives copies of the file descriptors, over a UNIX socket only, and drops them when this connection
    /// ends: call this right before each start.
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()>;

    /// Starts the domain's QEMU process.
    fn start(&self, options: StartOptions) -> Result<()>;

    /// Pauses the guest's CPUs.
    fn suspend(&self) -> Result<()>;

    /// Resumes the guest's CPUs.
    fn resume(&self) -> Result<()>;

    /// Resets the guest, as its reset button does.
    fn reset(&self) -> Result<()>;

    /// Asks the guest to reboot.
    fn reboot(&self, mode: RebootMode) -> Result<()>;

    /// Asks the guest to power off. An event follows when it has done so.
    fn shutdown(&self, mode: ShutdownMode) -> Result<()>;

    /// Ends the QEMU process: `SIGTERM`, then, unless graceful, `SIGKILL`.
    fn destroy(&self, mode: DestroyMode) -> Result<()>;
}

/// How to start a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// Leave the guest paused before its first instruction.
    pub paused: bool,
    /// Start with new UEFI variables.
    pub reset_nvram: bool,
}

impl StartOptions {
    /// The guest runs at once.
    pub const RUNNING: StartOptions = StartOptions {
        paused: false,
        reset_nvram: false,
    };
    /// The guest is paused before its first instruction.
    pub const PAUSED: StartOptions = StartOptions {
        paused: true,
        reset_nvram: false,
    };
}

/// How to ask for a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebootMode {
    /// By the ACPI power button.
    Acpi,
    /// Through the guest agent.
    Agent,
}

/// How to ask for a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// By the ACPI power button.
    Acpi,
    /// Through the guest agent.
    Agent,
}

/// How to end a QEMU process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DestroyMode {
    /// `SIGTERM`, then `SIGKILL`.
    #[default]
    Forceful,
    /// Only `SIGTERM`. Fails if QEMU does not end.
    Graceful,
}
