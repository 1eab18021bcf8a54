//! Starting, pausing and stopping a domain.

use std::os::fd::BorrowedFd;

use crate::error::Result;

/// Starting and stopping.
pub trait Power {
    /// Lends open files to the domain, for elements that name them by `fdgroup`.
    ///
    /// libvirt gets copies, over a UNIX socket only, and forgets them when the connection ends that
    /// lent them: lend right before each start.
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()>;

    /// Starts the domain's QEMU process.
    fn start(&self, how: StartOptions) -> Result<()>;

    /// Stops the guest's processors.
    fn suspend(&self) -> Result<()>;

    /// Lets them run again.
    fn resume(&self) -> Result<()>;

    /// Presses the reset button.
    fn reset(&self) -> Result<()>;

    /// Asks the guest to reboot.
    fn reboot(&self, by: RebootMode) -> Result<()>;

    /// Asks the guest to power off; an event tells when it has.
    fn shutdown(&self, by: ShutdownMode) -> Result<()>;

    /// Ends the QEMU process: `SIGTERM`, then, unless graceful, `SIGKILL`.
    fn destroy(&self, how: DestroyMode) -> Result<()>;
}

/// How to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// Leave the guest paused before its first instruction.
    pub paused: bool,
    /// StartOptions from fresh UEFI variables.
    pub reset_nvram: bool,
}

impl StartOptions {
    /// Running at once.
    pub const RUNNING: StartOptions = StartOptions {
        paused: false,
        reset_nvram: false,
    };
    /// Paused before the first instruction.
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
    /// Whatever it takes.
    #[default]
    Forceful,
    /// Only `SIGTERM`; fails when QEMU does not end by it.
    Graceful,
}
