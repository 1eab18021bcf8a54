//! What a hook reads and changes of a migration before it starts: bandwidth, time limits and post-copy.

mod names_and_ranges;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use names_and_ranges::{MigrationParameter, MigrationParameterError};

/// The parameters of a migration to another node that a hook may change. A hook declares those that it changes with
/// [`Description::with_migration_parameters`](crate::Description::with_migration_parameters).
///
/// A parameter is `None` if the host did not pass it or its value cannot be read.
///
/// ```
/// # use std::time::Duration;
/// # use hooks_sdk::Migration;
/// let mut migration = Migration::new(vec![("bandwidth".into(), "0".into()), ("max-downtime".into(), "300".into())]);
/// if migration.bandwidth() == Some(0) {
///     migration.set_bandwidth(64 << 20)?;
/// }
/// assert_eq!(migration.bandwidth(), Some(67_108_864));
/// assert_eq!(migration.max_downtime(), Some(Duration::from_millis(300)));
/// assert_eq!(migration.completion_timeout(), None);
///
/// let error = migration.set_parallel_connections(300).unwrap_err();
/// assert_eq!(error.to_string(), "parallel-connections is a number from 0 to 255, not \"300\"");
/// # Ok::<(), hooks_sdk::MigrationParameterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    parameters: Vec<(String, String)>,
}

impl Migration {
    /// The parameters as the host gives them, by name.
    pub fn new(parameters: Vec<(String, String)>) -> Migration {
        Migration { parameters }
    }

    /// The parameters for the host.
    pub fn into_parameters(self) -> Vec<(String, String)> {
        self.parameters
    }

    /// The value of a parameter as text; `None` if the host did not pass it.
    pub fn get(&self, parameter: MigrationParameter) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(name, _)| name == parameter.name());
        found.map(|(_, value)| value.as_str())
    }

    /// Sets a parameter from a number or a `bool`.
    ///
    /// # Errors
    /// If the value is outside the parameter's range. The value that the parameter already has is always accepted.
    pub fn set(
        &mut self,
        parameter: MigrationParameter,
        value: impl ToString,
    ) -> Result<(), MigrationParameterError> {
        self.set_text(parameter, value.to_string())
    }

    fn set_text(
        &mut self,
        parameter: MigrationParameter,
        value: String,
    ) -> Result<(), MigrationParameterError> {
        if self.get(parameter) == Some(&value) {
            return Ok(());
        }
        parameter.check(&value)?;
        self.write(parameter, value);
        Ok(())
    }

    fn write(&mut self, parameter: MigrationParameter, value: String) {
        let mut parameters = self.parameters.iter_mut();
        match parameters.find(|(name, _)| name == parameter.name()) {
            Some((_, old)) => *old = value,
            None => {
                let name = parameter.name().to_owned();
                self.parameters.push((name, value));
            }
        }
    }

    fn number(&self, parameter: MigrationParameter) -> Option<u64> {
        self.get(parameter)?.parse().ok()
    }

    fn switch(&self, parameter: MigrationParameter) -> Option<bool> {
        self.get(parameter)?.parse().ok()
    }

    /// The maximum number of bytes to send in a second; 0 for no limit.
    pub fn bandwidth(&self) -> Option<u64> {
        self.number(MigrationParameter::Bandwidth)
    }

    /// Limits the bytes that are sent in a second; 0 for no limit. libvirt counts in MiB.
    ///
    /// # Errors
    /// If the number is above 2^32 - 1 MiB.
    pub fn set_bandwidth(&mut self, bytes: u64) -> Result<(), MigrationParameterError> {
        self.set(MigrationParameter::Bandwidth, bytes)
    }

    /// The number of connections for memory; 0 for one that carries everything.
    pub fn parallel_connections(&self) -> Option<u64> {
        self.number(MigrationParameter::ParallelConnections)
    }

    /// Sets the number of connections for memory; 0 for one that carries everything.
    ///
    /// # Errors
    /// If the number is above 255.
    pub fn set_parallel_connections(
        &mut self,
        connections: u64,
    ) -> Result<(), MigrationParameterError> {
        self.set(MigrationParameter::ParallelConnections, connections)
    }

    /// Whether the guest may continue on the target before its memory is there.
    pub fn allows_post_copy(&self) -> Option<bool> {
        self.switch(MigrationParameter::AllowPostCopy)
    }

    /// Allows or forbids post-copy.
    pub fn allow_post_copy(&mut self, allowed: bool) {
        self.write(MigrationParameter::AllowPostCopy, allowed.to_string());
    }

    /// Whether the guest may be slowed down when it writes faster than memory is sent.
    pub fn allows_auto_converge(&self) -> Option<bool> {
        self.switch(MigrationParameter::AllowAutoConverge)
    }

    /// Allows or forbids auto-converge.
    pub fn allow_auto_converge(&mut self, allowed: bool) {
        self.write(MigrationParameter::AllowAutoConverge, allowed.to_string());
    }

    /// The completion timeout in seconds for each GiB; 0 for never.
    pub fn completion_timeout(&self) -> Option<u64> {
        self.number(MigrationParameter::CompletionTimeout)
    }

    /// Sets the completion timeout in seconds for each GiB; 0 for never.
    ///
    /// # Errors
    /// If the number is above 2^32 - 1.
    pub fn set_completion_timeout(&mut self, seconds: u64) -> Result<(), MigrationParameterError> {
        self.set(MigrationParameter::CompletionTimeout, seconds)
    }

    /// The maximum time for which the guest may be stopped.
    pub fn max_downtime(&self) -> Option<Duration> {
        let milliseconds = self.number(MigrationParameter::MaxDowntime)?;
        Some(Duration::from_millis(milliseconds))
    }

    /// Sets the maximum time for which the guest may be stopped, in whole milliseconds, rounded down.
    ///
    /// # Errors
    /// If it is shorter than 1 ms or longer than 2,000 seconds.
    pub fn set_max_downtime(&mut self, downtime: Duration) -> Result<(), MigrationParameterError> {
        self.set(MigrationParameter::MaxDowntime, downtime.as_millis())
    }
}
