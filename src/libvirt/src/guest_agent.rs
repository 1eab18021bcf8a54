//! The guest agent, as libvirt reaches it.

use std::time::Duration;

use crate::error::Result;

/// Commands to the guest agent.
pub trait Agent {
    /// Sends one JSON command to the guest agent and returns its JSON answer.
    ///
    /// libvirt counts in whole seconds: `timeout` is rounded up, at least to one.
    /// Without an agent it fails with [`AGENT_UNRESPONSIVE`](crate::error::code::AGENT_UNRESPONSIVE).
    fn agent_command(&self, json: &str, timeout: Duration) -> Result<String>;

    /// How long libvirt waits for the guest agent in calls that have no timeout of their own; for ever
    /// otherwise. Whole seconds, as above. It holds until the domain ends.
    fn set_agent_timeout(&self, timeout: Duration) -> Result<()>;

    /// Sets the guest's clock, through the guest agent; `now` counts from the Unix epoch.
    fn set_time(&self, now: Duration) -> Result<()>;
}
