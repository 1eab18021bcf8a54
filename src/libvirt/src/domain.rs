//! The trait of a domain: its identity, state and statistics, and one supertrait per group of calls.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::domain_jobs::{Jobs, Migration};
use crate::domain_state::State;
use crate::error::Result;
use crate::stats::{DirtyRateStats, DomainStats};

/// One domain. A handle stays valid when the domain ends or is undefined; calls then fail with
/// [`NO_DOMAIN`](crate::error::code::NO_DOMAIN) or
/// [`OPERATION_INVALID`](crate::error::code::OPERATION_INVALID).
pub trait Domain:
    Power
    + Definition
    + Devices
    + Vcpus
    + IoThreads
    + Blocks
    + Jobs
    + Migration
    + Checkpoints
    + Agent
    + Screen
    + DirtyRate
    + LaunchSecurity
    + QemuMonitor
    + Send
    + Sync
{
    /// The domain's name.
    fn name(&self) -> &str;

    /// The domain's UUID, lower case with dashes.
    fn uuid(&self) -> &str;

    /// Whether the domain's connection still works, as far as is known without a call to the daemon.
    fn is_connected(&self) -> bool;

    /// The domain's state, and the reason for it.
    fn state(&self) -> Result<State>;

    /// The domain's statistics. `None` while it has no QEMU process.
    fn stats(&self) -> Result<Option<DomainStats>>;
}

/// The domain's XML and its persistent definition.
pub trait Definition {
    /// The domain's XML.
    fn xml(&self, kind: XmlKind) -> Result<String>;

    /// Removes the persistent definition. A running domain continues as a transient one.
    fn undefine(&self, options: UndefineOptions) -> Result<()>;
}

/// The kinds of a domain's XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlKind {
    /// The running configuration with run-time details; the persistent one if the domain does not run.
    Active,
    /// The configuration of the next start.
    Inactive,
    /// The configuration without details of this host, for a migration.
    Migratable,
}

/// What an undefinition does with the files that belong to the definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndefineOptions {
    /// UEFI variables.
    pub nvram: FilePolicy,
    /// TPM state.
    pub tpm: FilePolicy,
}

impl UndefineOptions {
    /// Keeps all files, as KubeVirt does: they are on a volume of their own.
    pub const KEEP: UndefineOptions = UndefineOptions {
        nvram: FilePolicy::Keep,
        tpm: FilePolicy::AsDefined,
    };
}

/// What an undefinition does with a file. For UEFI variables libvirt refuses [`FilePolicy::AsDefined`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilePolicy {
    /// Keep or remove the file, as the definition says.
    #[default]
    AsDefined,
    /// Keep the file.
    Keep,
}

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

/// Attaching, detaching and changing devices.
pub trait Devices {
    /// Attaches the device that an XML element describes.
    fn attach_device(&self, xml: &str, to: Affect) -> Result<()>;

    /// Detaches the device that an XML element identifies. Success means that the guest was asked to release it.
    /// libvirt waits at most 5 s for the guest; a [`DeviceRemoved`](crate::Event::DeviceRemoved) event follows once the
    /// device is released.
    fn detach_device(&self, xml: &str, from: Affect) -> Result<()>;

    /// Changes a device: the medium of a drive, the link of an interface, the requested size of a memory device.
    fn update_device(&self, xml: &str, of: Affect) -> Result<()>;
}

/// The configurations of a domain that a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affect {
    /// The running configuration.
    Live,
    /// The persistent configuration.
    Config,
    /// Both.
    LiveAndConfig,
}

/// The disks of a running domain, named by target (`vda`) or by source path.
pub trait Blocks {
    /// The sizes of all disks by source path, in one call. A disk whose size libvirt does not report is omitted.
    fn block_infos(&self) -> Result<BTreeMap<String, BlockInfo>>;

    /// The errors that QEMU reports for disks, by target.
    fn disk_errors(&self) -> Result<BTreeMap<String, DiskFault>>;

    /// Resizes a disk, and notifies the guest.
    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()>;
}

/// Sizes of a disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    /// The size that the guest sees; 0 if libvirt does not know it.
    pub capacity: u64,
    /// The space that is allocated on the host.
    pub allocation: u64,
    /// The size of the image file, or of the block device.
    pub physical: u64,
}

/// The error of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The storage is full.
    NoSpace,
    /// Another error.
    Other,
}

/// The requested size of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// A size in bytes.
    Bytes(u64),
    /// The size of the underlying block device.
    Device,
}

/// The number of virtual CPUs, and the host CPUs that they are pinned to.
pub trait Vcpus {
    /// Sets the number of virtual CPUs, at most the domain's maximum. If the guest does not release a CPU, libvirt
    /// fails after 5 s; the guest may have released other CPUs by then.
    fn set_vcpus(&self, count: u32, of: Affect) -> Result<()>;

    /// Pins the virtual CPU `vcpu` to the host CPUs `cpus`.
    fn pin_vcpu(&self, vcpu: u32, cpus: &[u32], of: Affect) -> Result<()>;

    /// Pins QEMU's own threads to the host CPUs `cpus`.
    fn pin_emulator(&self, cpus: &[u32], of: Affect) -> Result<()>;
}

/// The threads in which QEMU serves disks.
pub trait IoThreads {
    /// Adds an IO thread with this id, which is at least 1 and which no other thread of the domain has.
    fn add_io_thread(&self, id: u32, to: Affect) -> Result<()>;
}

/// Commands to the guest agent.
pub trait Agent {
    /// Sends one JSON command to the guest agent and returns its JSON response.
    ///
    /// libvirt's timeouts are whole seconds: `timeout` is rounded up, to at least one second.
    /// Without an agent the call fails with [`AGENT_UNRESPONSIVE`](crate::error::code::AGENT_UNRESPONSIVE).
    fn agent_command(&self, json: &str, timeout: Duration) -> Result<String>;

    /// Sets how long libvirt waits for the guest agent in calls without a timeout of their own; by default libvirt
    /// waits for ever. `timeout` is rounded as in [`Agent::agent_command`], and holds until the domain ends.
    fn set_agent_timeout(&self, timeout: Duration) -> Result<()>;

    /// Sets the guest's clock, through the guest agent; `now` counts from the Unix epoch.
    fn set_time(&self, now: Duration) -> Result<()>;
}

/// The monitor of a running domain's QEMU.
pub trait QemuMonitor {
    /// Sends a QMP command (`{"execute":"qom-list",...}`), and returns QEMU's response as JSON: `{"return":...}`, or
    /// `{"error":{"class":...,"desc":...}}` if QEMU reports an error. libvirt does not notice what a command changes.
    fn qemu_command(&self, command: &str) -> Result<String>;
}

/// A picture of a domain's screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screenshot {
    /// The media type, e.g. `image/png`.
    pub mime: String,
    /// The picture.
    pub data: Vec<u8>,
}

/// The screen of a running domain.
pub trait Screen {
    /// A picture of the first screen, also while the domain is paused. Fails if the picture has more than `limit`
    /// bytes.
    fn screenshot(&self, limit: usize) -> Result<Screenshot>;
}

// Launch security of confidential guests on AMD SEV: the measurement by which the owner verifies a guest, and the
// secret that the guest receives afterwards.

/// The SEV firmware of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SevInfo {
    /// The platform's Diffie-Hellman key, base64.
    pub pdh: String,
    /// The certificate chain, base64.
    pub cert_chain: String,
}

/// How a guest was launched. Values that libvirt does not report are zero or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchSecurityInfo {
    /// The launch measurement, base64.
    pub measurement: String,
    /// Major version of the SEV API.
    pub api_major: u64,
    /// Minor version of the SEV API.
    pub api_minor: u64,
    /// Build of the SEV firmware.
    pub build_id: u64,
    /// The guest's policy.
    pub policy: u64,
}

/// A secret that libvirt writes into the guest's memory.
#[derive(Clone, PartialEq, Eq)]
pub struct LaunchSecret {
    /// The packet header, base64.
    pub header: String,
    /// The encrypted secret, base64.
    pub secret: String,
}

/// Omits the fields, which are secret.
impl std::fmt::Debug for LaunchSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LaunchSecret")
    }
}

/// The launch security of a domain.
pub trait LaunchSecurity {
    /// How the guest was launched.
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo>;

    /// Writes a secret into the memory of a guest that is paused before its first instruction.
    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()>;
}

/// Measurements of the dirty rate.
pub trait DirtyRate {
    /// Starts a measurement that samples pages, and returns at once. From then on [`DirtyRate::dirty_rate`] returns
    /// this measurement and no earlier one. `period` is cut to whole seconds, at least one.
    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()>;

    /// The last measurement; `None` when the domain has no QEMU process.
    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>>;
}

/// The backups and checkpoints of a running domain.
pub trait Checkpoints {
    /// Starts a backup, and creates a checkpoint of the same moment. The backup is a job
    /// ([`JobOperation::Backup`](crate::JobOperation::Backup)): the call returns once the job runs. In push mode the
    /// job ends by itself, in pull mode when it is [aborted](crate::Jobs::abort_job).
    ///
    /// Fails with [`NO_DOMAIN_CHECKPOINT`](crate::error::code::NO_DOMAIN_CHECKPOINT) when libvirt does not know
    /// the checkpoint that an incremental backup starts from, and with
    /// [`OPERATION_TIMEOUT`](crate::error::code::OPERATION_TIMEOUT) when another job runs.
    fn begin_backup(&self, backup_xml: &str, checkpoint_xml: &str) -> Result<()>;

    /// Redefines a checkpoint whose bitmaps exist in the disks' images. libvirt validates the bitmaps.
    ///
    /// Fails with [`INVALID_DOMAIN_CHECKPOINT`](crate::error::code::INVALID_DOMAIN_CHECKPOINT),
    /// [`NO_DOMAIN_CHECKPOINT`](crate::error::code::NO_DOMAIN_CHECKPOINT) or
    /// [`CHECKPOINT_INCONSISTENT`](crate::error::code::CHECKPOINT_INCONSISTENT) when the bitmaps are
    /// missing or damaged.
    fn redefine_checkpoint(&self, xml: &str) -> Result<()>;
}
