//! KubeVirt's names of a domain's states and their reasons.

use std::fmt;

use serde::Serialize;

/// KubeVirt's life cycle state of a domain; the numbers are libvirt's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum LifeCycle {
    /// No state (0); also a domain that no longer exists.
    #[default]
    NoState,
    /// Running (1).
    Running,
    /// Blocked on a resource (2).
    Blocked,
    /// Paused (3).
    Paused,
    /// Being shut down (4).
    #[serde(rename = "ShuttingDown")]
    Shutdown,
    /// Off (5).
    Shutoff,
    /// Crashed (6).
    Crashed,
    /// Suspended by the guest's power management (7).
    #[serde(rename = "PMSuspended")]
    PmSuspended,
}

impl LifeCycle {
    /// KubeVirt's name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoState => "NoState",
            Self::Running => "Running",
            Self::Blocked => "Blocked",
            Self::Paused => "Paused",
            Self::Shutdown => "ShuttingDown",
            Self::Shutoff => "Shutoff",
            Self::Crashed => "Crashed",
            Self::PmSuspended => "PMSuspended",
        }
    }
}

impl fmt::Display for LifeCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// KubeVirt's reasons for a state, in one list because several states share them.
pub mod reason {
    /// No particular reason, and every reason of a running domain.
    pub const UNKNOWN: &str = "Unknown";
    /// Requested by a user.
    pub const USER: &str = "User";
    /// The guest powered off.
    pub const SHUTDOWN: &str = "Shutdown";
    /// Destroyed.
    pub const DESTROYED: &str = "Destroyed";
    /// QEMU exited unexpectedly.
    pub const CRASHED: &str = "Crashed";
    /// Migrated away.
    pub const MIGRATED: &str = "Migrated";
    /// The domain no longer exists.
    pub const NON_EXISTENT: &str = "NonExistent";
    /// Created, vCPUs not yet started.
    pub const STARTING_UP: &str = "StartingUp";
    /// A storage error paused the guest.
    pub const IO_ERROR: &str = "IOError";
    /// Paused for a dump.
    pub const DUMP: &str = "Dump";
    /// Paused for a migration.
    pub const MIGRATION: &str = "Migration";
}
