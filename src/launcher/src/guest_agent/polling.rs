//! The task that polls the guest agent, one command at a time, and fills the cache.

mod schedule;

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Domain, code};
use tokio::sync::watch;
use tokio::time::Instant;

use super::guest_info_cache::GuestInfoCache;
use crate::guest_agent::answer_decoders::AnswerError;
use crate::guest_agent::guest_info_cache::AgentFact;
use crate::guest_agent::{AGENT_TIMEOUT, LIBVIRT_MARGIN, answer_decoders, command_agent};
use crate::libvirt_client::{AGENT, CallError, Client};
pub(crate) use schedule::AgentLink;
pub use schedule::PollIntervals;
use schedule::{Poll, PollOutcome, Schedule};

/// Polls the guest agent. Clones have schedules of their own and share the cache.
#[derive(Clone)]
pub(crate) struct Poller {
    pub(crate) client: Client,
    pub(crate) cache: Arc<GuestInfoCache>,
    /// Whether the agent can be polled.
    pub(crate) link: watch::Receiver<AgentLink>,
    pub(crate) intervals: PollIntervals,
}

impl Poller {
    /// Polls the agent; never ends by itself.
    pub(crate) async fn run(mut self) {
        let begin = Instant::now();
        let mut schedule = Schedule::new(self.intervals);
        let mut frozen = self.cache.frozen();
        loop {
            schedule.observe_link(*self.link.borrow_and_update(), begin.elapsed());
            schedule.observe_frozen(*frozen.borrow_and_update());
            let next = schedule.next();
            tokio::select! {
                biased;
                changed = self.link.changed() => if changed.is_err() {
                    // The sender is gone: the launcher ends.
                    std::future::pending::<()>().await;
                },
                // Cannot fail: the cache holds the sender.
                _ = frozen.changed() => {}
                () = wait_until(begin, next.map(|(at, _)| at)) => if let Some((_, poll)) = next {
                    let outcome = ask(&self.client, &self.cache, poll).await;
                    schedule.observe_outcome(poll, outcome, begin.elapsed());
                },
            }
        }
    }
}

async fn wait_until(begin: Instant, at: Option<Duration>) {
    match at {
        Some(at) => tokio::time::sleep_until(begin + at).await,
        None => std::future::pending().await,
    }
}

type Decode = fn(&str) -> Result<AgentFact, AnswerError>;

/// The commands of a poll, each with the function that decodes its answer.
fn commands(poll: Poll) -> &'static [(&'static str, Decode)] {
    match poll {
        Poll::FreezeStatus => &[("guest-fsfreeze-status", |answer| {
            answer_decoders::freeze_status(answer).map(AgentFact::FreezeStatus)
        })],
        Poll::Agent => &[("guest-info", |answer| {
            answer_decoders::agent_version(answer).map(AgentFact::Agent)
        })],
        Poll::System => &[
            ("guest-network-get-interfaces", |answer| {
                answer_decoders::interfaces(answer).map(AgentFact::Interfaces)
            }),
            ("guest-get-osinfo", |answer| {
                answer_decoders::os_info(answer).map(AgentFact::OsInfo)
            }),
            ("guest-get-host-name", |answer| {
                answer_decoders::hostname(answer).map(AgentFact::Hostname)
            }),
            ("guest-get-timezone", |answer| {
                answer_decoders::timezone(answer).map(AgentFact::Timezone)
            }),
        ],
        Poll::Users => &[("guest-get-users", |answer| {
            answer_decoders::users(answer).map(AgentFact::Users)
        })],
        Poll::Filesystems => &[("guest-get-fsinfo", |answer| {
            answer_decoders::filesystems(answer).map(AgentFact::Filesystems)
        })],
        Poll::Load => &[("guest-get-load", |answer| {
            answer_decoders::load(answer).map(AgentFact::Load)
        })],
    }
}

/// Sends the commands of a poll, and updates the cache once with all decoded answers.
async fn ask(client: &Client, cache: &GuestInfoCache, poll: Poll) -> PollOutcome {
    let mut facts = Vec::new();
    let mut outcome = PollOutcome::Answered;
    for (command, decode) in commands(poll) {
        match send(client, command).await {
            Ok(answer) => match decode(&answer) {
                Ok(fact) => facts.push(fact),
                Err(error) => tracing::warn!(command, reason = %error, "guest agent"),
            },
            Err(error) if is_unanswered(&error) => {
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

/// Whether the agent gave no answer, not even an error: it is gone, hangs, or is busy with another command.
fn is_unanswered(error: &CallError) -> bool {
    match error {
        CallError::Libvirt(error) => error.code != code::AGENT_COMMAND_FAILED,
        CallError::NoAnswer(_) | CallError::NotEnded { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_error_is_an_answer() {
        let error = |code| {
            CallError::Libvirt(libvirt::Error {
                code,
                domain: 10,
                message: String::new(),
            })
        };
        assert!(!is_unanswered(&error(code::AGENT_COMMAND_FAILED)));
        assert!(is_unanswered(&error(code::AGENT_COMMAND_TIMEOUT)));
        assert!(is_unanswered(&error(code::AGENT_UNRESPONSIVE)));
    }
}
