//! The parameters of a migration.

/// The parameters of a migration to another node that a hook may change. A hook declares those that it changes with
/// [`Description::with_migration`](crate::Description::with_migration).
///
/// ```
/// # use hooks_sdk::Migration;
/// let mut migration = Migration::new(vec![("bandwidth".into(), "0".into()), ("max-downtime".into(), "300".into())]);
/// if migration.bandwidth() == 0 {
///     migration.set_bandwidth(64 << 20);
/// }
/// assert_eq!((migration.bandwidth(), migration.max_downtime()), (67_108_864, 300));
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

    /// The value of a parameter by its name in the WIT; `None` for one that the host does not have.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Sets a parameter by its name in the WIT.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string();
        match self.parameters.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.parameters.push((name.to_owned(), value)),
        }
    }

    fn number(&self, name: &str) -> u64 {
        self.get(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or_default()
    }

    fn switch(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// The most to send in a second, in bytes; 0 for no limit.
    pub fn bandwidth(&self) -> u64 {
        self.number("bandwidth")
    }

    /// Limits what is sent in a second, in bytes; 0 for no limit. libvirt counts in MiB.
    pub fn set_bandwidth(&mut self, bytes: u64) {
        self.set("bandwidth", bytes);
    }

    /// Connections for memory; 0 for one that carries everything.
    pub fn parallel_connections(&self) -> u64 {
        self.number("parallel-connections")
    }

    /// Sets the number of connections for memory, at most 255; 0 for one that carries everything.
    pub fn set_parallel_connections(&mut self, connections: u64) {
        self.set("parallel-connections", connections);
    }

    /// Whether the guest may continue on the target before its memory is there.
    pub fn allows_post_copy(&self) -> bool {
        self.switch("allow-post-copy")
    }

    /// Allows or forbids post-copy.
    pub fn allow_post_copy(&mut self, allowed: bool) {
        self.set("allow-post-copy", allowed);
    }

    /// Whether the guest may be slowed down when it writes faster than memory is sent.
    pub fn allows_auto_converge(&self) -> bool {
        self.switch("allow-auto-converge")
    }

    /// Allows or forbids auto-converge.
    pub fn allow_auto_converge(&mut self, allowed: bool) {
        self.set("allow-auto-converge", allowed);
    }

    /// Seconds for each GiB; 0 for never.
    pub fn completion_timeout(&self) -> u64 {
        self.number("completion-timeout")
    }

    /// Sets the completion timeout in seconds for each GiB; 0 for never.
    pub fn set_completion_timeout(&mut self, seconds: u64) {
        self.set("completion-timeout", seconds);
    }

    /// Milliseconds for which the guest may be stopped.
    pub fn max_downtime(&self) -> u64 {
        self.number("max-downtime")
    }

    /// Sets the milliseconds for which the guest may be stopped, from 1 to 2,000,000.
    pub fn set_max_downtime(&mut self, milliseconds: u64) {
        self.set("max-downtime", milliseconds);
    }
}
