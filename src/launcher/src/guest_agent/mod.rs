//! The guest's agent. Its state is not followed yet; it is asked when somebody asks for it.

mod exec;
mod ping;

use std::time::Duration;

pub(crate) use exec::ask;
pub use exec::{ExecError, Finished, GuestCommand, exec};
pub use ping::ping;

/// GetGuestInfo's payload while nothing is known of the guest.
pub const NO_INFO: &str = r#"{"os":{},"timezone":", 0","fsInfo":{"disks":null}}"#;
/// GetUsers' and GetFilesystems' payload while nothing is known of the guest.
pub const NO_LIST: &str = "[]";

/// libvirt's own patience with the agent when the caller has none to state.
const AGENT: Duration = Duration::from_secs(5);
/// The launcher's patience with libvirt goes a little beyond libvirt's with the agent.
const BEYOND: Duration = Duration::from_secs(2);

/// How long the agent may take, from a request's seconds.
fn patience(seconds: i32) -> Duration {
    match u64::try_from(seconds) {
        Ok(seconds @ 1..) => Duration::from_secs(seconds.min(3600)),
        _ => AGENT,
    }
}
