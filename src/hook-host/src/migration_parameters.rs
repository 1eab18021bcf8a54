//! The parameters of a live migration that hooks may change.

use std::fmt;
use std::ops::RangeInclusive;

use domain_xml::host::{Change, ChangeKind};
use serde::Deserialize;

/// The parameters of one migration. `Default` has the values that KubeVirt's virt-handler sends by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationParameters {
    /// Maximum bandwidth in bytes per second; 0 means no limit.
    pub bandwidth: u64,
    /// Number of connections for memory; 0 means one connection for everything.
    pub parallel_connections: u64,
    /// Whether the guest may continue on the target before all its memory has arrived.
    pub allow_post_copy: bool,
    /// Whether the guest is slowed down if it writes faster than memory is sent.
    pub allow_auto_converge: bool,
    /// Timeout of the migration in seconds per GiB; 0 means no timeout.
    pub completion_timeout: u64,
    /// Maximum time for which the guest is stopped, in milliseconds.
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

    /// Sets a parameter from text. The error names the parameter, the value and the expected values.
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
                minimum: *range.start(),
                maximum: *range.end(),
                text: text.to_owned(),
            })
        };
        let boolean = || match text {
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
            MigrationParameter::AllowPostCopy => self.allow_post_copy = boolean()?,
            MigrationParameter::AllowAutoConverge => self.allow_auto_converge = boolean()?,
            MigrationParameter::CompletionTimeout => self.completion_timeout = number()?,
            MigrationParameter::MaxDowntime => self.max_downtime = number()?,
        }
        Ok(())
    }

    /// Names and values of all parameters as text, in the form that modules get.
    #[must_use]
    pub fn to_texts(&self) -> Vec<(String, String)> {
        let text = |parameter: MigrationParameter| (parameter.to_string(), self.get(parameter));
        MigrationParameter::ALL.map(text).to_vec()
    }

    /// Parses the parameters of a recorded call. Values are accepted that no hook may set, because virt-handler may
    /// have sent them.
    pub(crate) fn from_recorded_texts(
        texts: &[(String, String)],
    ) -> Result<Self, MigrationParameterError> {
        let mut parameters = Self::default();
        for (name, value) in texts {
            let parameter = MigrationParameter::from_name(name)?;
            parameters.set_within(parameter, value, 0..=u64::MAX)?;
        }
        Ok(parameters)
    }

    /// Returns these parameters with the values that a hook returned.
    pub fn with_texts(&self, texts: &[(String, String)]) -> Result<Self, MigrationParameterError> {
        let mut after = self.clone();
        let mut seen = Vec::new();
        for (name, value) in texts {
            let parameter = MigrationParameter::from_name(name)?;
            if seen.contains(&parameter) {
                return Err(MigrationParameterError::Repeated(parameter));
            }
            seen.push(parameter);
            // An unchanged value is accepted even if it is outside the range.
            if *value != self.get(parameter) {
                after.set(parameter, value)?;
            }
        }
        Ok(after)
    }

    /// The parameters whose values differ, each with the value before and after.
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
    fn range(self) -> RangeInclusive<u64> {
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

#[cfg(test)]
mod tests;
