//! The roles that the launcher needs libvirt to play.
//!
//! Every call blocks until the daemon has answered: keep them off async workers. What bounds them:
//! - a daemon that has ended fails them at once, one that is stopped or stuck fails them when
//!   [`KEEPALIVE`] runs out (the connection is then closed, and a
//!   [`ConnectionClosed`](crate::Event::ConnectionClosed) event follows);
//! - a daemon that is alive but busy with another job of the same domain answers with
//!   [`OPERATION_TIMEOUT`](crate::error::code::OPERATION_TIMEOUT) after 30 s;
//! - commands to the guest agent carry their own timeout.
//!
//! What the two together cannot bound is QEMU taking its time over a command while the daemon is
//! well: callers that must answer sooner put their own deadline around the call and go on without
//! its result.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::event::{EventSink, Subscription};
use crate::state::State;
use crate::stats::GuestStats;

/// Interval and count of the keepalive messages: a silent daemon is given up after
/// `interval * (count + 1)`.
pub const KEEPALIVE: (Duration, u32) = (Duration::from_secs(5), 3);

/// A connection to a hypervisor's daemon.
pub trait Hypervisor: Send + Sync {
    /// The domain of that name, if libvirt knows it.
    fn lookup(&self, name: &str) -> Result<Option<Arc<dyn Guest>>>;

    /// Makes the domain known, or replaces its persistent definition.
    fn define(&self, xml: &str) -> Result<Arc<dyn Guest>>;

    /// Delivers every domain event and the connection's end until the subscription is dropped.
    fn subscribe(&self, sink: EventSink) -> Result<Subscription>;

    /// The connection still works, as far as is known without asking the daemon.
    fn is_alive(&self) -> bool;

    /// The version of the daemon's libvirt.
    fn version(&self) -> Result<Version>;

    /// The version of the hypervisor (QEMU).
    fn qemu_version(&self) -> Result<Version>;

    /// The host's capabilities, XML.
    fn capabilities_xml(&self) -> Result<String>;

    /// What guests of one kind can have, XML.
    fn domain_capabilities_xml(&self, of: DomainKind<'_>) -> Result<String>;
}

/// One domain. A handle stays valid when the domain ends or is undefined; calls then fail with
/// [`NO_DOMAIN`](crate::error::code::NO_DOMAIN) or
/// [`OPERATION_INVALID`](crate::error::code::OPERATION_INVALID).
pub trait Guest: Power + Definition + Blocks + Send + Sync {
    /// The domain's name.
    fn name(&self) -> &str;

    /// The domain's UUID, lower case with dashes.
    fn uuid(&self) -> &str;

    /// What the domain is doing, and why.
    fn state(&self) -> Result<State>;

    /// The domain's figures. `None` while it has no QEMU process.
    fn stats(&self) -> Result<Option<GuestStats>>;

    /// Sends one JSON command to the guest agent and returns its JSON answer.
    ///
    /// libvirt counts in whole seconds: `timeout` is rounded up, at least to one.
    /// Without an agent it fails with [`AGENT_UNRESPONSIVE`](crate::error::code::AGENT_UNRESPONSIVE).
    fn agent_command(&self, json: &str, timeout: Duration) -> Result<String>;

    /// Sets the guest's clock, through the guest agent; `now` counts from the Unix epoch.
    fn set_time(&self, now: Duration) -> Result<()>;
}

/// Starting and stopping.
pub trait Power {
    /// Lends open files to the domain, for elements that name them by `fdgroup`.
    ///
    /// libvirt gets copies, over a UNIX socket only, and forgets them when the connection ends that
    /// lent them: lend right before each start.
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()>;

    /// Starts the domain's QEMU process.
    fn start(&self, how: Start) -> Result<()>;

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
    fn destroy(&self, how: Destroy) -> Result<()>;
}

/// What libvirt keeps about the domain.
pub trait Definition {
    /// The domain's XML.
    fn xml(&self, kind: XmlKind) -> Result<String>;

    /// Forgets the persistent definition; a running domain lives on as a transient one.
    fn undefine(&self, what: Undefine) -> Result<()>;

    /// The metadata element of a namespace, e.g. `http://kubevirt.io`; `None` when there is none.
    fn metadata(&self, uri: &str, of: Affect) -> Result<Option<String>>;

    /// Replaces the metadata element of a namespace; `xml: None` removes it.
    fn set_metadata(&self, metadata: Metadata<'_>, of: Affect) -> Result<()>;
}

/// The disks of a running domain, named by target (`vda`) or by source path.
pub trait Blocks {
    /// How large a disk is.
    fn block_info(&self, disk: &str) -> Result<BlockInfo>;

    /// Makes a disk another size, and tells the guest.
    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()>;
}

/// How large a disk is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    /// What the guest sees; 0 when libvirt cannot tell.
    pub capacity: u64,
    /// What is written on the host.
    pub allocation: u64,
    /// What the image takes up, or the size of the device.
    pub physical: u64,
}

/// The size that a disk is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// So many bytes.
    Bytes(u64),
    /// As large as the block device that it is.
    Device,
}

/// How to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Leave the guest paused before its first instruction.
    pub paused: bool,
    /// Start from fresh UEFI variables.
    pub reset_nvram: bool,
}

impl Start {
    /// Running at once.
    pub const RUNNING: Start = Start {
        paused: false,
        reset_nvram: false,
    };
    /// Paused before the first instruction.
    pub const PAUSED: Start = Start {
        paused: true,
        reset_nvram: false,
    };
}

/// How to ask for a reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RebootMode {
    /// As the hypervisor sees fit.
    #[default]
    Default,
    /// By the ACPI power button.
    Acpi,
    /// Through the guest agent.
    Agent,
}

/// How to ask for a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShutdownMode {
    /// As the hypervisor sees fit: the agent when there is one, else ACPI.
    #[default]
    Default,
    /// By the ACPI power button.
    Acpi,
    /// Through the guest agent.
    Agent,
}

/// How to end a QEMU process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Destroy {
    /// Whatever it takes.
    #[default]
    Forceful,
    /// Only `SIGTERM`; fails when QEMU does not end by it.
    Graceful,
}

/// Which XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlKind {
    /// With run-time details, when the domain runs.
    Active,
    /// As it will be at the next start.
    Inactive,
    /// Fit to be sent to another host.
    Migratable,
}

/// What becomes of the files that belong to a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undefine {
    /// UEFI variables.
    pub nvram: Files,
    /// TPM state.
    pub tpm: Files,
}

impl Undefine {
    /// Nothing is removed: what KubeVirt does, since the files live on a volume of their own.
    pub const KEEP: Undefine = Undefine {
        nvram: Files::Keep,
        tpm: Files::AsDefined,
    };
}

/// Keep, remove, or as the definition says (libvirt refuses to guess for UEFI variables).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// As the definition says.
    #[default]
    AsDefined,
    /// Keep them.
    Keep,
    /// Remove them.
    Remove,
}

/// Which of a domain's two configurations is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affect {
    /// The running one if it runs, else the persistent one.
    #[default]
    Current,
    /// The running one.
    Live,
    /// The persistent one.
    Config,
    /// Both.
    LiveAndConfig,
}

/// A metadata element to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// The element's namespace, e.g. `http://kubevirt.io`.
    pub uri: &'a str,
    /// The prefix libvirt gives to it, e.g. `kubevirt`.
    pub prefix: &'a str,
    /// The element without its namespace declaration; none removes it.
    pub xml: Option<&'a str>,
}

/// What to ask domain capabilities for; what is absent is libvirt's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainKind<'a> {
    /// The QEMU binary.
    pub emulator: Option<&'a str>,
    /// The architecture, e.g. `x86_64`.
    pub arch: Option<&'a str>,
    /// The machine type, e.g. `q35`.
    pub machine: Option<&'a str>,
    /// `kvm` or `qemu`.
    pub virt_type: Option<&'a str>,
}

/// A version as libvirt packs it: `major * 1_000_000 + minor * 1_000 + release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Version(packed) = *self;
        write!(
            f,
            "{}.{}.{}",
            packed / 1_000_000,
            packed / 1_000 % 1_000,
            packed % 1_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_version_reads_as_three_numbers() {
        assert_eq!(Version(10_000_002).to_string(), "10.0.2");
        assert_eq!(Version(11_003_000).to_string(), "11.3.0");
    }
}
