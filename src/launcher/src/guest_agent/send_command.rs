//! Sends one command to the guest agent and decodes the answer.

use std::sync::Arc;
use std::time::Duration;

use libvirt::Domain;
use serde::Deserialize;

use super::answer_decoders::{self, AnswerError};
use super::{LIBVIRT_MARGIN, command_agent};
use crate::libvirt_client::{AGENT, CallError, Client};

/// A command of the agent failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentCommandError {
    /// libvirt or the agent returned an error, or gave no answer.
    #[error(transparent)]
    Agent(#[from] CallError),
    /// The agent's answer is invalid.
    #[error("{command}: {source}")]
    Answer {
        /// The agent's command.
        command: &'static str,
        /// The decoding error.
        source: AnswerError,
    },
}

/// Sends one command to the agent and decodes the `return` value of the answer.
pub(crate) async fn ask<T: for<'de> Deserialize<'de>>(
    client: &Client,
    domain: &Arc<dyn Domain>,
    command: &'static str,
    json: String,
    timeout: Duration,
) -> Result<T, AgentCommandError> {
    let call = client.on(
        domain,
        "asking the guest agent",
        AGENT.within(timeout + LIBVIRT_MARGIN),
        move |domain| command_agent(domain, &json, timeout),
    );
    let answer = call.await?;
    answer_decoders::decode(&answer).map_err(|source| AgentCommandError::Answer { command, source })
}
