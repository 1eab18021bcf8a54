//! A guest agent that has answered a ping, and the commands to it.

use std::sync::Arc;
use std::time::Duration;

use libvirt::Domain;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::guest_agent::send_command::{self, AgentCommandError};
use crate::guest_agent::{AGENT_TIMEOUT, GUEST_PING};
use crate::libvirt_client::{CallError, Client};

/// How long the agent may take for one command.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// A domain whose agent has answered a ping.
pub(super) struct PingedAgent<'a> {
    pub(super) client: &'a Client,
    domain: Arc<dyn Domain>,
}

impl<'a> PingedAgent<'a> {
    /// Looks up the client's domain and pings its agent.
    pub(super) async fn open(client: &'a Client) -> Result<PingedAgent<'a>, AgentCommandError> {
        let domain = client.lookup().await?;
        let domain = domain.ok_or_else(|| CallError::no_domain(client.domain_name()))?;
        let agent = PingedAgent { client, domain };
        let ping = GUEST_PING.to_owned();
        send_command::ask::<IgnoredAny>(client, &agent.domain, "guest-ping", ping, AGENT_TIMEOUT)
            .await?;
        Ok(agent)
    }

    /// Sends one command, and decodes the `return` value of the answer.
    pub(super) async fn ask<T: for<'de> serde::Deserialize<'de>>(
        &self,
        command: &'static str,
        arguments: Value,
    ) -> Result<T, AgentCommandError> {
        let json = json!({ "execute": command, "arguments": arguments }).to_string();
        send_command::ask(self.client, &self.domain, command, json, COMMAND_TIMEOUT).await
    }
}
