//! The guest agent: pings, commands, credentials and the guest's clock. Its state is not polled yet; every call
//! asks the agent.

pub(crate) mod credentials;
pub(crate) mod exec;
pub(crate) mod guest_time;
mod ping;

use std::time::Duration;

pub(crate) use exec::{GuestCommand, exec};
pub(crate) use ping::{expect_answer, ping};

/// GetGuestInfo's payload while nothing is known of the guest.
pub(crate) const NO_INFO: &str = r#"{"os":{},"timezone":", 0","fsInfo":{"disks":null}}"#;
/// GetUsers' and GetFilesystems' payload while nothing is known of the guest.
pub(crate) const NO_LIST: &str = "[]";

/// How long the agent may take when a request names no timeout. Without a limit libvirt waits for a hung agent for ever
/// and refuses every other agent call meanwhile; its own limit for a sign of life is 5 s as well.
pub(crate) const AGENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Asks for a sign of life.
pub(crate) const GUEST_PING: &str = r#"{"execute":"guest-ping"}"#;
/// How much longer a call to libvirt may take than the agent's answer.
const LIBVIRT_MARGIN: Duration = Duration::from_secs(2);

/// How long the agent may take, from a request's seconds.
fn agent_timeout(seconds: i32) -> Duration {
    match u64::try_from(seconds) {
        Ok(seconds @ 1..) => Duration::from_secs(seconds.min(3600)),
        _ => AGENT_TIMEOUT,
    }
}
