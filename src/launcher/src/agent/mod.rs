//! The guest agent.
//!
//! ```text
//!   observer ─ agent link ─▶ polling (schedule) ─ commands ─▶ agent
//!                                  │ answers within limits
//!   queries, statistics ◀── guest_info (cache) ── changes ──▶ observer ─▶ notifications
//! ```
//! Pings, commands, credentials and the guest's clock ask the agent themselves; queries read only the cache.

mod answer;
pub(crate) mod credentials;
mod freeze;
pub(crate) mod guest_exec;
mod guest_info;
pub(crate) mod guest_time;
mod ping;
mod polling;
mod send_agent_command;
mod vm_stats_answers;

use std::time::Duration;

use hook_host::printable;
use libvirt::Domain;

pub(crate) use freeze::{Change, FreezeError, FreezeRequest, Freezer};
pub(crate) use guest_exec::{GuestCommand, exec};
pub(crate) use guest_info::GuestInfoCache;
pub(crate) use ping::{expect_answer, ping};
pub(crate) use polling::AgentLink;
pub use polling::PollIntervals;
pub(crate) use polling::Poller;
pub(crate) use vm_stats_answers::AgentData;

/// How long the agent may take when a request names no timeout. Without a limit libvirt waits for a hung agent for ever
/// and refuses every other agent call meanwhile; its own limit for a sign of life is 5 s as well.
pub(crate) const AGENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Asks for a sign of life.
pub(crate) const GUEST_PING: &str = r#"{"execute":"guest-ping"}"#;
/// How much longer a call to libvirt may take than the agent's answer.
const LIBVIRT_MARGIN: Duration = Duration::from_secs(2);

/// The most bytes of the guest's data in an error. The guest is not trusted, and errors end in logs and the VMI's status.
const MAX_QUOTE: usize = 256;
/// The most bytes of libvirt's errors about an agent: they name the command and quote the agent's reason.
const MAX_REFUSAL: usize = 768;

/// A text that quotes the guest's data, made safe to print.
fn quote(text: &str) -> String {
    printable(text, MAX_QUOTE)
}

/// Sends a command to the agent. Blocking.
fn command_agent(domain: &dyn Domain, json: &str, timeout: Duration) -> libvirt::Result<String> {
    domain.agent_command(json, timeout).map_err(shorten)
}

/// libvirt's error, which quotes the agent's reason, in limited length.
pub(crate) fn shorten(error: libvirt::Error) -> libvirt::Error {
    libvirt::Error {
        message: printable(&error.message, MAX_REFUSAL),
        ..error
    }
}

/// How long the agent may take, from a request's seconds.
fn agent_timeout(seconds: i32) -> Duration {
    match u64::try_from(seconds) {
        Ok(seconds @ 1..) => Duration::from_secs(seconds.min(3600)),
        _ => AGENT_TIMEOUT,
    }
}
