//! The agent's answers that GetVMStats passes on unchanged. Callers share them as long as KubeVirt does.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Domain, code};
use serde::de::IgnoredAny;

use super::answer::{self, AnswerError};
use super::{LIBVIRT_MARGIN, command_agent};
use crate::blocking::NoAnswer;
use crate::libvirt_client::{AGENT, CacheAge, CallError, Client, SingleFlightCache};

/// virt-handler waits 5 s for all of them.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The commands, and for how many seconds an answer is kept.
const COMMANDS: [(&str, u64); 14] = [
    ("guest-get-load", 20),
    ("guest-get-cpustats", 20),
    ("guest-get-diskstats", 20),
    ("guest-get-time", 60),
    ("guest-get-vcpus", 60),
    ("guest-get-memory-block-info", 60),
    ("guest-get-users", 60),
    ("guest-get-osinfo", 300),
    ("guest-get-disks", 300),
    ("guest-get-host-name", 300),
    ("guest-get-timezone", 300),
    ("guest-network-get-route", 300),
    ("guest-network-get-interfaces", 300),
    ("guest-get-memory-blocks", 1800),
];

/// No answer to pass on.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum AgentDataError {
    /// libvirt or the agent refused, or gave no answer.
    #[error(transparent)]
    Agent(#[from] CallError),
    /// The answer is too large, or no JSON.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// No such command is passed on.
    #[error("{0} is not among the commands whose answers are kept")]
    Unknown(&'static str),
}

impl From<NoAnswer> for AgentDataError {
    fn from(error: NoAnswer) -> Self {
        AgentDataError::Agent(error.into())
    }
}

impl AgentDataError {
    /// Whether the agent gives no answer, so that it will give none to the next command either.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            AgentDataError::Agent(CallError::Libvirt(error)) => {
                error.code != code::AGENT_COMMAND_FAILED
            }
            AgentDataError::Agent(_) => true,
            AgentDataError::Answer(_) | AgentDataError::Unknown(_) => false,
        }
    }
}

/// The shared answers.
pub struct AgentData {
    client: Client,
    answers: Vec<(&'static str, SingleFlightCache<Arc<str>, AgentDataError>)>,
}

impl AgentData {
    /// Nothing was asked yet.
    pub fn new(client: Client) -> AgentData {
        let answers = COMMANDS.map(|(command, seconds)| {
            let age = Duration::from_secs(seconds);
            let age = CacheAge {
                max: age,
                refresh_after: age,
            };
            (
                command,
                SingleFlightCache::new("asking the guest agent", age),
            )
        });
        AgentData {
            client,
            answers: answers.into(),
        }
    }

    /// The answer to a command, with its `return`.
    pub(crate) async fn get(&self, command: &'static str) -> Result<Arc<str>, AgentDataError> {
        let shared = self.answers.iter().find(|(one, _)| *one == command);
        let Some((_, shared)) = shared else {
            return Err(AgentDataError::Unknown(command));
        };
        let client = self.client.clone();
        shared.get(async move { ask(&client, command).await }).await
    }
}

async fn ask(client: &Client, command: &'static str) -> Result<Arc<str>, AgentDataError> {
    let json = format!(r#"{{"execute":"{command}"}}"#);
    let send = move |domain: &dyn Domain| command_agent(domain, &json, TIMEOUT);
    let class = AGENT.within(TIMEOUT + LIBVIRT_MARGIN);
    let answer = client.query("asking the guest agent", class, send).await?;
    let answer = answer.ok_or_else(|| CallError::no_domain(client.domain_name()))?;
    answer::check_size(&answer)?;
    serde_json::from_str::<IgnoredAny>(&answer)
        .map_err(|error| AnswerError::content(&error.to_string()))?;
    Ok(answer.into())
}
