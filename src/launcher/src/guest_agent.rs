//! Commands to the guest agent, and what is done with its answers.
//!
//! ```text
//!   observer ─ agent link ─▶ polling (schedule) ─ commands ─▶ agent
//!                                  │ answers within limits
//!              queries ◀── guest_info_cache ──── changes ──▶ observer ─▶ notifications
//! ```
//! Pings, `exec`, credentials, freezing, the guest's clock and GetVMStats (`vm_stats_answer_cache`) send their own
//! commands to the agent. All other queries read only the cache.

pub(crate) mod access_credentials;
mod answer_decoders;
mod freeze;
pub(crate) mod guest_clock_sync;
pub(crate) mod guest_exec;
mod guest_info_cache;
mod polling;
mod vm_stats_answer_cache;

use std::sync::Arc;
use std::time::Duration;

use hook_host::printable;
use libvirt::{Domain, DomainState, Error, Reason, State, code};
use serde::Deserialize;

use crate::libvirt_client::{AGENT, AGENT_PROBE, CallError, Client};
use answer_decoders::AnswerError;
pub(crate) use freeze::{Change, FreezeError, FreezeRequest, Freezer};
pub(crate) use guest_exec::{GuestCommand, exec};
pub(crate) use guest_info_cache::GuestInfoCache;
pub use polling::PollIntervals;
pub(crate) use polling::{AgentLink, Poller};
pub(crate) use vm_stats_answer_cache::VmStatsAnswerCache;

/// How long the agent may take when a request has no timeout. Without a timeout libvirt waits for a hung agent for
/// ever, and refuses every other agent call meanwhile. libvirt's own timeout for a sync with the agent is 5 s as well.
pub(crate) const AGENT_TIMEOUT: Duration = Duration::from_secs(5);
/// The command that pings the agent.
pub(crate) const GUEST_PING: &str = r#"{"execute":"guest-ping"}"#;
/// How much longer a call to libvirt may take than the agent command in it.
const LIBVIRT_MARGIN: Duration = Duration::from_secs(2);
/// Maximum number of bytes of the guest's data in an error. The guest is not trusted, and errors appear in logs and in
/// the VMI's status.
const MAX_QUOTE_BYTES: usize = 256;
/// Maximum size of libvirt's errors about an agent, in bytes. They name the command and quote the agent's error.
const MAX_LIBVIRT_ERROR_BYTES: usize = 768;

/// Shortens a text that quotes the guest's data, and makes it safe to print.
fn quote(text: &str) -> String {
    printable(text, MAX_QUOTE_BYTES)
}

/// Sends a command to the agent and returns the answer's JSON. Blocking.
fn command_agent(domain: &dyn Domain, json: &str, timeout: Duration) -> libvirt::Result<String> {
    domain.agent_command(json, timeout).map_err(shorten)
}

/// Shortens libvirt's error, which quotes the agent's error.
pub(crate) fn shorten(error: Error) -> Error {
    Error {
        message: printable(&error.message, MAX_LIBVIRT_ERROR_BYTES),
        ..error
    }
}

/// The timeout of a request for the agent: an hour at most, [`AGENT_TIMEOUT`] unless it is positive.
fn agent_timeout(seconds: i32) -> Duration {
    match u64::try_from(seconds) {
        Ok(seconds @ 1..) => Duration::from_secs(seconds.min(3600)),
        _ => AGENT_TIMEOUT,
    }
}

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

/// Pings the agent of a domain, for the guest agent probe; `seconds` is the probe's timeout. A VM that migrates or is
/// paused for a harmless reason counts as healthy, and so does a domain that does not exist (yet): a failing probe would
/// end the pod. `migrates` is called after the agent has not answered.
pub(crate) async fn ping(
    client: &Client,
    domain: &str,
    seconds: i32,
    migrates: impl Fn() -> bool,
) -> Result<(), CallError> {
    let name = domain.to_owned();
    let deadline = agent_timeout(seconds);
    let ping = client.libvirt(
        "pinging the guest agent",
        AGENT_PROBE.within(deadline + LIBVIRT_MARGIN),
        move |hypervisor| {
            let Some(domain) = hypervisor.lookup(&name)? else {
                return Ok(None);
            };
            let answer = command_agent(&*domain, GUEST_PING, deadline);
            Ok(Some((answer, domain.state())))
        },
    );
    let pinged = match ping.await {
        // The agent is connected and does not answer.
        Err(CallError::NoAnswer(_)) if migrates() => return Ok(()),
        result => result?,
    };
    match pinged {
        None => Ok(()),
        Some((Ok(_), _)) => Ok(()),
        // libvirt does not send commands to the agent of a paused guest.
        Some((Err(error), state))
            if (is_silent(&error) || error.is_operation_invalid())
                && (explains_silence(state.as_ref().ok()) || migrates()) =>
        {
            Ok(())
        }
        Some((Err(error), _)) => Err(error.into()),
    }
}

/// Succeeds when the agent of a domain answers a ping within [`AGENT_TIMEOUT`].
pub(crate) async fn expect_answer(
    client: &Client,
    domain: &Arc<dyn Domain>,
) -> Result<(), CallError> {
    let class = AGENT.within(AGENT_TIMEOUT);
    let ping = |domain: &dyn Domain| command_agent(domain, GUEST_PING, AGENT_TIMEOUT);
    let pinged = client.on(domain, "pinging the guest agent", class, ping);
    pinged.await.map(drop)
}

fn is_silent(error: &Error) -> bool {
    error.is_agent_unresponsive() || error.code == code::AGENT_COMMAND_TIMEOUT
}

/// Whether the domain's state explains a silent agent. `None` means that the domain is just going away.
fn explains_silence(state: Option<&State>) -> bool {
    let Some(State { state, reason }) = state else {
        return true;
    };
    let is_harmless = matches!(
        reason,
        Reason::User
            | Reason::Migration
            | Reason::Save
            | Reason::Dump
            | Reason::FromSnapshot
            | Reason::ShuttingDown
            | Reason::Snapshot
            | Reason::StartingUp
            | Reason::Postcopy
    );
    *state == DomainState::Paused && is_harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_of_the_agent_is_explained_by_a_harmless_pause_only() {
        let is_explained = |state, reason| explains_silence(Some(&State::new(state, reason)));
        assert!(is_explained(DomainState::Paused, Reason::User));
        assert!(!is_explained(DomainState::Paused, Reason::IOError));
        assert!(!is_explained(DomainState::Running, Reason::Booted));
    }
}
