//! Calls to the guest agent through libvirt.

use std::time::Duration;

use crate::error::Result;

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
