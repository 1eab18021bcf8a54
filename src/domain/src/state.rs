//! libvirt's domain states in KubeVirt's words.

use std::fmt;

use serde::Serialize;

/// KubeVirt's life cycle of a domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum LifeCycle {
    /// No state (libvirt 0); also a domain that is gone.
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
    /// The word KubeVirt uses.
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

    /// From libvirt's `virDomainState`; an unknown number is `NoState`.
    pub fn from_libvirt(state: i32) -> Self {
        match state {
            1 => Self::Running,
            2 => Self::Blocked,
            3 => Self::Paused,
            4 => Self::Shutdown,
            5 => Self::Shutoff,
            6 => Self::Crashed,
            7 => Self::PmSuspended,
            _ => Self::NoState,
        }
    }
}

impl fmt::Display for LifeCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// KubeVirt's reasons for a state. One list for all states: the words are shared.
pub mod reason {
    /// No particular reason, and every reason of a running domain.
    pub const UNKNOWN: &str = "Unknown";
    /// Asked for by a user.
    pub const USER: &str = "User";
    /// The guest powered off.
    pub const SHUTDOWN: &str = "Shutdown";
    /// Destroyed.
    pub const DESTROYED: &str = "Destroyed";
    /// QEMU ended unexpectedly.
    pub const CRASHED: &str = "Crashed";
    /// Migrated away.
    pub const MIGRATED: &str = "Migrated";
    /// The domain is gone.
    pub const NON_EXISTENT: &str = "NonExistent";
    /// Created, processors not yet started.
    pub const STARTING_UP: &str = "StartingUp";
    /// A storage error paused the guest.
    pub const IO_ERROR: &str = "IOError";
    /// Paused for a dump.
    pub const DUMP: &str = "Dump";
    /// Paused for a migration.
    pub const MIGRATION: &str = "Migration";
}

const SHUTDOWN_REASONS: [&str; 2] = ["Unknown", "User"];
const SHUTOFF_REASONS: [&str; 8] = [
    "Unknown",
    "Shutdown",
    "Destroyed",
    "Crashed",
    "Migrated",
    "Saved",
    "Failed",
    "FromSnapshot",
];
const CRASHED_REASONS: [&str; 2] = ["Unknown", "Panicked"];
const PAUSED_REASONS: [&str; 14] = [
    "Unknown",
    "User",
    "Migration",
    "Save",
    "Dump",
    "IOError",
    "Watchdog",
    "FromSnapshot",
    "ShuttingDown",
    "Snapshot",
    "Crashed",
    "StartingUp",
    "Postcopy",
    "PostcopyFailed",
];

/// KubeVirt's word for libvirt's reason, whose meaning depends on the state. A reason that KubeVirt has
/// no word for is the empty text.
pub fn reason_from_libvirt(state: LifeCycle, reason: i32) -> &'static str {
    let words: &[&'static str] = match state {
        LifeCycle::Shutdown => &SHUTDOWN_REASONS,
        LifeCycle::Shutoff => &SHUTOFF_REASONS,
        LifeCycle::Crashed => &CRASHED_REASONS,
        LifeCycle::Paused => &PAUSED_REASONS,
        _ => return reason::UNKNOWN,
    };
    usize::try_from(reason)
        .ok()
        .and_then(|reason| words.get(reason))
        .copied()
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_words() {
        let case = |state, number| {
            let state = LifeCycle::from_libvirt(state);
            format!("{state}/{}", reason_from_libvirt(state, number))
        };
        assert_eq!(case(1, 5), "Running/Unknown");
        assert_eq!(case(3, 11), "Paused/StartingUp");
        assert_eq!(case(3, 1), "Paused/User");
        assert_eq!(case(5, 2), "Shutoff/Destroyed");
        assert_eq!(case(5, 3), "Shutoff/Crashed");
        assert_eq!(case(4, 1), "ShuttingDown/User");
        assert_eq!(case(6, 1), "Crashed/Panicked");
        assert_eq!(case(5, 99), "Shutoff/");
        assert_eq!(case(99, -1), "NoState/Unknown");
    }
}
