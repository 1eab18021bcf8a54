//! One migration parameter: its name in the WIT, its range, and errors of setting it.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Deserialize;

/// Maximum number of QEMU's multifd channels.
const MAX_PARALLEL_CONNECTIONS: u64 = 255;
/// QEMU's maximum downtime in milliseconds.
const MAX_DOWNTIME_MS: u64 = 2_000_000;

/// A parameter that a hook may change. `Display` prints its name in the WIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigrationParameter {
    /// Maximum bandwidth in bytes per second; 0 means no limit.
    Bandwidth,
    /// Number of connections for memory; 0 means one connection for everything.
    ParallelConnections,
    /// Whether the guest may continue on the target before all its memory has arrived.
    AllowPostCopy,
    /// Whether the guest is slowed down if it writes faster than memory is sent.
    AllowAutoConverge,
    /// Timeout of the migration in seconds per GiB; 0 means no timeout.
    CompletionTimeout,
    /// Maximum time for which the guest is stopped, in milliseconds.
    MaxDowntime,
}

/// Why a migration parameter or its value is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationParameterError {
    /// No parameter has this name.
    #[error(
        "{0:?} is not a parameter of a migration; there are {names}",
        names = MigrationParameter::names()
    )]
    Unknown(String),
    /// The value is not a number, or is outside the range that libvirt and QEMU accept.
    #[error("{parameter} is a number from {minimum} to {maximum}, not {text:?}")]
    Number {
        /// The parameter.
        parameter: MigrationParameter,
        /// The smallest number.
        minimum: u64,
        /// The largest number.
        maximum: u64,
        /// The value.
        text: String,
    },
    /// The value is neither `true` nor `false`.
    #[error("{parameter} is true or false, not {text:?}")]
    Switch {
        /// The parameter.
        parameter: MigrationParameter,
        /// The value.
        text: String,
    },
    /// The parameter has two values.
    #[error("{0} is there twice")]
    Repeated(MigrationParameter),
}

impl MigrationParameter {
    /// All parameters.
    pub const ALL: [Self; 6] = [
        Self::Bandwidth,
        Self::ParallelConnections,
        Self::AllowPostCopy,
        Self::AllowAutoConverge,
        Self::CompletionTimeout,
        Self::MaxDowntime,
    ];

    /// The name in the WIT, in wishes and in policies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::ParallelConnections => "parallel-connections",
            Self::AllowPostCopy => "allow-post-copy",
            Self::AllowAutoConverge => "allow-auto-converge",
            Self::CompletionTimeout => "completion-timeout",
            Self::MaxDowntime => "max-downtime",
        }
    }

    /// All names, for messages: `bandwidth, parallel-connections, ...`.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The range of a numeric parameter that hooks may set, which is the range that libvirt and QEMU accept.
    pub(super) fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Bandwidth => 0..=u64::from(u32::MAX) << 20,
            Self::ParallelConnections => 0..=MAX_PARALLEL_CONNECTIONS,
            Self::MaxDowntime => 1..=MAX_DOWNTIME_MS,
            Self::CompletionTimeout | Self::AllowPostCopy | Self::AllowAutoConverge => {
                0..=u64::from(u32::MAX)
            }
        }
    }

    /// The parameter with this name. The error lists the names.
    pub fn from_name(name: &str) -> Result<Self, MigrationParameterError> {
        let parameter = Self::ALL.into_iter().find(|known| known.name() == name);
        parameter.ok_or_else(|| MigrationParameterError::Unknown(name.to_owned()))
    }
}

impl fmt::Display for MigrationParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
