//! The information that the guest agent reports, decoded.

use kubevirt_api::domain_json::{GuestOsInfo, InterfaceStatus};

use crate::domain_stats_json::Load;

/// Whether the guest's file systems are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreezeStatus {
    /// The file systems can be written to.
    Thawed,
    /// The file systems are frozen: writes wait for the thaw.
    Frozen,
}

impl FreezeStatus {
    /// The status as the agent and KubeVirt write it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FreezeStatus::Thawed => "thawed",
            FreezeStatus::Frozen => "frozen",
        }
    }
}

/// The agent's version and commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AgentVersion {
    /// The version, such as `7.2.22`.
    pub(crate) version: String,
    /// The commands that the agent supports, in its order.
    pub(crate) commands: Vec<AgentCommand>,
}

/// A command that the agent supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentCommand {
    /// The name, such as `guest-ping`.
    pub(crate) name: String,
    /// Whether the command is enabled.
    pub(crate) enabled: bool,
}

/// The guest's time zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Timezone {
    /// The name of the time zone, such as `UTC`.
    pub(crate) zone: String,
    /// The offset from UTC in seconds, positive in the east.
    pub(crate) offset: i32,
}

/// A user who is logged in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct User {
    /// The user's name.
    pub(crate) name: String,
    /// The domain of the account, on Windows.
    pub(crate) domain: String,
    /// When the user logged in, in seconds since the Unix epoch, with a precision of milliseconds.
    pub(crate) login_time: f64,
}

/// A mounted file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filesystem {
    /// Name of the device in the guest, such as `vda1`.
    pub(crate) disk_name: String,
    /// Mount point.
    pub(crate) mount_point: String,
    /// Type, such as `ext4`.
    pub(crate) kind: String,
    /// Used space in bytes.
    pub(crate) used_bytes: i64,
    /// Size in bytes.
    pub(crate) total_bytes: i64,
    /// The disks that hold the file system.
    pub(crate) disks: Vec<FilesystemDisk>,
}

/// A disk that holds a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilesystemDisk {
    /// Serial number; may be empty.
    pub(crate) serial: String,
    /// Bus, such as `virtio`.
    pub(crate) bus: String,
}

/// The information in one answer of the agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AgentFact {
    /// The agent's version and commands.
    Agent(AgentVersion),
    /// Whether file systems are frozen.
    FreezeStatus(FreezeStatus),
    /// Network interfaces without the loopback interface.
    Interfaces(Vec<InterfaceStatus>),
    /// The operating system.
    OsInfo(GuestOsInfo),
    /// Host name.
    Hostname(String),
    /// Time zone.
    Timezone(Timezone),
    /// Users who are logged in.
    Users(Vec<User>),
    /// Mounted file systems.
    Filesystems(Vec<Filesystem>),
    /// Load averages.
    Load(Load),
}
