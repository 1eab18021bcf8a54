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
mod ping;
mod polling;
mod send_command;
mod vm_stats_answer_cache;

use std::time::Duration;

use hook_host::printable;
use libvirt::Domain;

pub(crate) use freeze::{Change, FreezeError, FreezeRequest, Freezer};
pub(crate) use guest_exec::{GuestCommand, exec};
pub(crate) use guest_info_cache::GuestInfoCache;
pub(crate) use ping::{expect_answer, ping};
pub(crate) use polling::AgentLink;
pub use polling::PollIntervals;
pub(crate) use polling::Poller;
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
pub(crate) fn shorten(error: libvirt::Error) -> libvirt::Error {
    libvirt::Error {
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
