//! The parameters of a live migration that hooks may change: a closed set.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::fmt;
use std::ops::RangeInclusive;

use domain_xml::{Change, ChangeKind};
use serde::Deserialize;

/// QEMU has at most this many channels.
const MAX_CONNECTIONS: u64 = 255;
/// QEMU's largest downtime, in milliseconds.
const MAX_DOWNTIME: u64 = 2_000_000;

/// A parameter that a hook may change. `Display` prints its name in the WIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigrationParameter {
    /// Bytes in a second; 0 for no limit.
    Bandwidth,
    /// Connections for memory; 0 for one that carries everything.
    ParallelConnections,
    /// The guest may continue on the target before its memory is there.
    AllowPostCopy,
    /// Slow the guest down when it writes faster than memory is sent.
    AllowAutoConverge,
    /// Seconds for each GiB; 0 for never.
    CompletionTimeout,
    /// Milliseconds for which the guest may be stopped.
    MaxDowntime,
}

/// The parameters of one migration. `Default` has what KubeVirt's virt-handler sends unless it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationParameters {
    /// Bytes in a second; 0 for no limit.
    pub bandwidth: u64,
    /// Connections for memory; 0 for one that carries everything.
    pub parallel_connections: u64,
    /// The guest may continue on the target before its memory is there.
    pub allow_post_copy: bool,
    /// Slow the guest down when it writes faster than memory is sent.
    pub allow_auto_converge: bool,
    /// Seconds for each GiB; 0 for never.
    pub completion_timeout: u64,
    /// Milliseconds for which the guest may be stopped.
    pub max_downtime: u64,
}

impl Default for MigrationParameters {
    fn default() -> Self {
        Self {
            bandwidth: 0,
            parallel_connections: 8,
            allow_post_copy: false,
            allow_auto_converge: false,
            completion_timeout: 150,
            max_downtime: 900,
        }
    }
}

/// Why a parameter of a migration, or its value, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationParameterError {
    /// No parameter has this name.
    #[error(
        "{0:?} is not a parameter of a migration; there are {names}",
        names = MigrationParameter::ALL.map(MigrationParameter::name).join(", ")
    )]
    Unknown(String),
    /// The value is not a number, or one that libvirt or QEMU does not take.
    #[error("{parameter} is a number from {least} to {most}, not {text:?}")]
    Number {
        /// The parameter.
        parameter: MigrationParameter,
        /// The smallest number.
        least: u64,
        /// The largest number.
        most: u64,
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

    /// The values of a number that hooks may set, which are those that libvirt and QEMU take.
    fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Bandwidth => 0..=u64::from(u32::MAX) << 20,
            Self::ParallelConnections => 0..=MAX_CONNECTIONS,
            Self::MaxDowntime => 1..=MAX_DOWNTIME,
            Self::CompletionTimeout | Self::AllowPostCopy | Self::AllowAutoConverge => {
                0..=u64::from(u32::MAX)
            }
        }
    }

    /// The parameter with this name. The error lists the names.
    pub fn from_name(name: &str) -> Result<Self, MigrationParameterError> {
        let found = Self::ALL.into_iter().find(|known| known.name() == name);
        found.ok_or_else(|| MigrationParameterError::Unknown(name.to_owned()))
    }
}

impl fmt::Display for MigrationParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MigrationParameters {
    /// The value of a parameter as text.
    #[must_use]
    pub fn get(&self, parameter: MigrationParameter) -> String {
        match parameter {
            MigrationParameter::Bandwidth => self.bandwidth.to_string(),
            MigrationParameter::ParallelConnections => self.parallel_connections.to_string(),
            MigrationParameter::AllowPostCopy => self.allow_post_copy.to_string(),
            MigrationParameter::AllowAutoConverge => self.allow_auto_converge.to_string(),
            MigrationParameter::CompletionTimeout => self.completion_timeout.to_string(),
            MigrationParameter::MaxDowntime => self.max_downtime.to_string(),
        }
    }

    /// Sets a parameter from its text. The error names the parameter, the value and what is expected.
    pub fn set(
        &mut self,
        parameter: MigrationParameter,
        text: &str,
    ) -> Result<(), MigrationParameterError> {
        self.set_within(parameter, text, parameter.range())
    }

    fn set_within(
        &mut self,
        parameter: MigrationParameter,
        text: &str,
        range: RangeInclusive<u64>,
    ) -> Result<(), MigrationParameterError> {
        let number = || {
            let value = text.parse::<u64>().ok();
            let value = value.filter(|value| range.contains(value));
            value.ok_or_else(|| MigrationParameterError::Number {
                parameter,
                least: *range.start(),
                most: *range.end(),
                text: text.to_owned(),
            })
        };
        let switch = || match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(MigrationParameterError::Switch {
                parameter,
                text: text.to_owned(),
            }),
        };
        match parameter {
            MigrationParameter::Bandwidth => self.bandwidth = number()?,
            MigrationParameter::ParallelConnections => self.parallel_connections = number()?,
            MigrationParameter::AllowPostCopy => self.allow_post_copy = switch()?,
            MigrationParameter::AllowAutoConverge => self.allow_auto_converge = switch()?,
            MigrationParameter::CompletionTimeout => self.completion_timeout = number()?,
            MigrationParameter::MaxDowntime => self.max_downtime = number()?,
        }
        Ok(())
    }

    /// All parameters as texts, which modules get.
    #[must_use]
    pub fn to_texts(&self) -> Vec<(String, String)> {
        let text = |parameter: MigrationParameter| (parameter.to_string(), self.get(parameter));
        MigrationParameter::ALL.map(text).to_vec()
    }

    /// The parameters of a recorded call, which virt-handler may have sent with values that no hook may set.
    pub(crate) fn recorded(texts: &[(String, String)]) -> Result<Self, MigrationParameterError> {
        let mut recorded = Self::default();
        for (name, value) in texts {
            let parameter = MigrationParameter::from_name(name)?;
            recorded.set_within(parameter, value, 0..=u64::MAX)?;
        }
        Ok(recorded)
    }

    /// These parameters with a hook's values. The error says what is wrong with them.
    pub fn with_texts(&self, texts: &[(String, String)]) -> Result<Self, MigrationParameterError> {
        let mut after = self.clone();
        let mut seen = Vec::new();
        for (name, value) in texts {
            let parameter = MigrationParameter::from_name(name)?;
            if seen.contains(&parameter) {
                return Err(MigrationParameterError::Repeated(parameter));
            }
            seen.push(parameter);
            // A value that stands already is kept, whatever its range.
            if *value != self.get(parameter) {
                after.set(parameter, value)?;
            }
        }
        Ok(after)
    }

    /// The parameters that differ, with their values.
    #[must_use]
    pub fn differences(&self, after: &Self) -> Vec<(MigrationParameter, String, String)> {
        let values = |parameter| (parameter, self.get(parameter), after.get(parameter));
        let all = MigrationParameter::ALL.into_iter().map(values);
        all.filter(|(_, before, after)| before != after).collect()
    }

    /// The differences as changes, whose paths are the parameters' names.
    pub(crate) fn changes(&self, after: &Self) -> Vec<Change> {
        let differences = self.differences(after).into_iter();
        differences
            .map(|(parameter, before, after)| {
                Change::new(
                    parameter.to_string(),
                    ChangeKind::Edited,
                    Some(before),
                    Some(after),
                )
            })
            .collect()
    }
}
