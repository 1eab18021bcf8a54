//! Carries out one poll: its commands, and what is learned from their answers.

use libvirt::{Domain, code};

use super::schedule::{Poll, PollOutcome};
use crate::agent::answer::{self, AnswerError};
use crate::agent::guest_info::{Fact, GuestInfoCache};
use crate::agent::{AGENT_TIMEOUT, LIBVIRT_MARGIN, command_agent};
use crate::libvirt_client::{AGENT, CallError, Client};

type Decode = fn(&str) -> Result<Fact, AnswerError>;

/// The commands of a poll, and how their answers are read.
fn commands(poll: Poll) -> &'static [(&'static str, Decode)] {
    match poll {
        Poll::FreezeStatus => &[("guest-fsfreeze-status", |answer| {
            answer::freeze_status(answer).map(Fact::FreezeStatus)
        })],
        Poll::Agent => &[("guest-info", |answer| {
            answer::agent_version(answer).map(Fact::Agent)
        })],
        Poll::System => &[
            ("guest-network-get-interfaces", |answer| {
                answer::interfaces(answer).map(Fact::Interfaces)
            }),
            ("guest-get-osinfo", |answer| {
                answer::os_info(answer).map(Fact::OsInfo)
            }),
            ("guest-get-host-name", |answer| {
                answer::hostname(answer).map(Fact::Hostname)
            }),
            ("guest-get-timezone", |answer| {
                answer::timezone(answer).map(Fact::Timezone)
            }),
        ],
        Poll::Users => &[("guest-get-users", |answer| {
            answer::users(answer).map(Fact::Users)
        })],
        Poll::Filesystems => &[("guest-get-fsinfo", |answer| {
            answer::filesystems(answer).map(Fact::Filesystems)
        })],
        Poll::Load => &[("guest-get-load", |answer| {
            answer::load(answer).map(Fact::Load)
        })],
    }
}

/// Asks the agent and updates the cache once, with all that was learned.
pub(super) async fn ask(client: &Client, cache: &GuestInfoCache, poll: Poll) -> PollOutcome {
    let mut facts = Vec::new();
    let mut outcome = PollOutcome::Answered;
    for (command, decode) in commands(poll) {
        match send(client, command).await {
            Ok(answer) => match decode(&answer) {
                Ok(fact) => facts.push(fact),
                Err(error) => tracing::warn!(command, reason = %error, "guest agent"),
            },
            Err(error) if is_silence(&error) => {
                tracing::debug!(command, reason = %error, "the guest agent gives no answer");
                outcome = PollOutcome::Silent;
                break;
            }
            Err(error) => tracing::debug!(command, reason = %error, "the guest agent refuses"),
        }
    }
    cache.update(facts);
    outcome
}

async fn send(client: &Client, command: &'static str) -> Result<String, CallError> {
    let json = format!(r#"{{"execute":"{command}"}}"#);
    let class = AGENT.within(AGENT_TIMEOUT + LIBVIRT_MARGIN);
    let send = move |domain: &dyn Domain| command_agent(domain, &json, AGENT_TIMEOUT);
    let answer = client.query("polling the guest agent", class, send).await?;
    answer.ok_or_else(|| CallError::no_domain(client.domain_name()))
}

/// Whether nothing came from the agent: it is gone, hangs, or is busy with somebody else's command.
fn is_silence(error: &CallError) -> bool {
    match error {
        CallError::Libvirt(error) => error.code != code::AGENT_COMMAND_FAILED,
        CallError::NoAnswer(_) | CallError::NotEnded { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_an_answer() {
        let error = |code| {
            CallError::Libvirt(libvirt::Error {
                code,
                domain: 10,
                message: String::new(),
            })
        };
        assert!(!is_silence(&error(code::AGENT_COMMAND_FAILED)));
        assert!(is_silence(&error(code::AGENT_COMMAND_TIMEOUT)));
        assert!(is_silence(&error(code::AGENT_UNRESPONSIVE)));
    }
}
