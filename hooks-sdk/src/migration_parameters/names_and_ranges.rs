//! The names of the parameters, and the values that the host accepts. The host's own copy is
//! `src/hook-host/src/migration_parameters.rs`; `hooks-sdk/testing/tests/sdk_validates_like_host.rs` compares them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parameter of a migration. `Display` prints its name in the WIT and in policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MigrationParameter {
    /// Bytes in a second; 0 for no limit.
    Bandwidth,
    /// Connections for memory; 0 for one that carries everything.
    ParallelConnections,
    /// Whether the guest may continue on the target before its memory is there.
    AllowPostCopy,
    /// Whether the guest may be slowed down when it writes faster than memory is sent.
    AllowAutoConverge,
    /// Seconds for each GiB; 0 for never.
    CompletionTimeout,
    /// Milliseconds for which the guest may be stopped.
    MaxDowntime,
}

/// A value that the host does not accept for a parameter, or a name that no parameter has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationParameterError {
    parameter: Option<MigrationParameter>,
    text: String,
}

impl MigrationParameter {
    /// All parameters of this version of the SDK.
    pub const ALL: &'static [MigrationParameter] = &[
        MigrationParameter::Bandwidth,
        MigrationParameter::ParallelConnections,
        MigrationParameter::AllowPostCopy,
        MigrationParameter::AllowAutoConverge,
        MigrationParameter::CompletionTimeout,
        MigrationParameter::MaxDowntime,
    ];

    /// The name in the WIT and in policies, such as `max-downtime`.
    pub fn name(self) -> &'static str {
        match self {
            MigrationParameter::Bandwidth => "bandwidth",
            MigrationParameter::ParallelConnections => "parallel-connections",
            MigrationParameter::AllowPostCopy => "allow-post-copy",
            MigrationParameter::AllowAutoConverge => "allow-auto-converge",
            MigrationParameter::CompletionTimeout => "completion-timeout",
            MigrationParameter::MaxDowntime => "max-downtime",
        }
    }

    /// The numbers that hooks may set, which are those that libvirt and QEMU accept; `None` for `true` and `false`.
    fn range(self) -> Option<RangeInclusive<u64>> {
        let u32_max = u64::from(u32::MAX);
        match self {
            MigrationParameter::Bandwidth => Some(0..=u32_max << 20),
            MigrationParameter::ParallelConnections => Some(0..=255),
            MigrationParameter::CompletionTimeout => Some(0..=u32_max),
            MigrationParameter::MaxDowntime => Some(1..=2_000_000),
            MigrationParameter::AllowPostCopy | MigrationParameter::AllowAutoConverge => None,
        }
    }

    pub(super) fn check(self, text: &str) -> Result<(), MigrationParameterError> {
        let is_valid = match self.range() {
            Some(range) => text.parse().is_ok_and(|number| range.contains(&number)),
            None => matches!(text, "true" | "false"),
        };
        match is_valid {
            true => Ok(()),
            false => Err(MigrationParameterError {
                parameter: Some(self),
                text: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for MigrationParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Parses a name. The error lists the names.
impl FromStr for MigrationParameter {
    type Err = MigrationParameterError;

    fn from_str(name: &str) -> Result<MigrationParameter, MigrationParameterError> {
        let mut all = MigrationParameter::ALL.iter().copied();
        let found = all.find(|parameter| parameter.name() == name);
        found.ok_or_else(|| MigrationParameterError {
            parameter: None,
            text: name.to_owned(),
        })
    }
}

impl fmt::Display for MigrationParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        let Some(parameter) = self.parameter else {
            let names: Vec<&str> = MigrationParameter::ALL
                .iter()
                .map(|parameter| parameter.name())
                .collect();
            let names = names.join(", ");
            return write!(
                f,
                "{text:?} is not a parameter of a migration; there are {names}"
            );
        };
        match parameter.range() {
            Some(range) => {
                let (minimum, maximum) = range.into_inner();
                write!(
                    f,
                    "{parameter} is a number from {minimum} to {maximum}, not {text:?}"
                )
            }
            None => write!(f, "{parameter} is true or false, not {text:?}"),
        }
    }
}

impl std::error::Error for MigrationParameterError {}
