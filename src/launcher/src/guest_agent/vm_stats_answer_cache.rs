//! Caches the agent's answers that GetVMStats passes on unchanged, each for as long as KubeVirt does.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Domain, code};
use serde::de::IgnoredAny;

use super::answer_decoders::{self, AnswerError};
use super::{LIBVIRT_MARGIN, command_agent};
use crate::blocking::NoAnswer;
use crate::libvirt_client::{AGENT, CacheAge, CallError, Client, SingleFlightCache};

/// How long the agent may take for one command. virt-handler waits 5 s for all of them.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The commands, and for how many seconds an answer is cached.
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

/// There is no answer to pass on.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum VmStatsAnswerError {
    /// libvirt or the agent returned an error, or gave no answer.
    #[error(transparent)]
    Agent(#[from] CallError),
    /// The answer is too large or not JSON.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The command is not in [`COMMANDS`].
    #[error("{0} is not among the commands whose answers are kept")]
    UnknownCommand(&'static str),
}

impl From<NoAnswer> for VmStatsAnswerError {
    fn from(error: NoAnswer) -> Self {
        VmStatsAnswerError::Agent(error.into())
    }
}

impl VmStatsAnswerError {
    /// Whether the agent gave no answer, so that the next command would get none either.
    pub(crate) fn is_unanswered(&self) -> bool {
        match self {
            VmStatsAnswerError::Agent(CallError::Libvirt(error)) => {
                error.code != code::AGENT_COMMAND_FAILED
            }
            VmStatsAnswerError::Agent(_) => true,
            VmStatsAnswerError::Answer(_) | VmStatsAnswerError::UnknownCommand(_) => false,
        }
    }
}

/// The cached answers.
pub struct VmStatsAnswerCache {
    client: Client,
    answers: Vec<(
        &'static str,
        SingleFlightCache<Arc<str>, VmStatsAnswerError>,
    )>,
}

impl VmStatsAnswerCache {
    /// An empty cache.
    pub fn new(client: Client) -> VmStatsAnswerCache {
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
        VmStatsAnswerCache {
            client,
            answers: answers.into(),
        }
    }

    /// The whole answer to a command, with its `return` key.
    pub(crate) async fn get(&self, command: &'static str) -> Result<Arc<str>, VmStatsAnswerError> {
        let cache = self.answers.iter().find(|(name, _)| *name == command);
        let Some((_, cache)) = cache else {
            return Err(VmStatsAnswerError::UnknownCommand(command));
        };
        let client = self.client.clone();
        cache.get(async move { ask(&client, command).await }).await
    }
}

async fn ask(client: &Client, command: &'static str) -> Result<Arc<str>, VmStatsAnswerError> {
    let json = format!(r#"{{"execute":"{command}"}}"#);
    let send = move |domain: &dyn Domain| command_agent(domain, &json, ANSWER_TIMEOUT);
    let class = AGENT.within(ANSWER_TIMEOUT + LIBVIRT_MARGIN);
    let answer = client.query("asking the guest agent", class, send).await?;
    let answer = answer.ok_or_else(|| CallError::no_domain(client.domain_name()))?;
    answer_decoders::check_size(&answer)?;
    serde_json::from_str::<IgnoredAny>(&answer)
        .map_err(|error| AnswerError::content(&error.to_string()))?;
    Ok(answer.into())
}
