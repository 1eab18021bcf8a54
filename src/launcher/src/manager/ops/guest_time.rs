//! The guest's clock after a pause. Best effort, as KubeVirt does it: it takes the guest's agent, and
//! where the guest keeps time by network, that puts it right anyway.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libvirt::{Error, Guest, code};

use crate::blocking;

/// Between two attempts, and before the first: the agent wakes up with the guest.
const PAUSE: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 60;
/// libvirt itself gives up an agent that does not answer.
const CALL: Duration = Duration::from_secs(30);

/// Sets the guest's clock to the host's as soon as its agent answers, for a minute at most.
pub(super) async fn set(guest: Arc<dyn Guest>) {
    for _ in 0..ATTEMPTS {
        tokio::time::sleep(PAUSE).await;
        let guest = Arc::clone(&guest);
        let call = move || guest.set_time(now());
        match blocking::call("setting the guest's time", CALL, call).await {
            Ok(Ok(())) => return tracing::info!("guest time set"),
            Ok(Err(error)) if may_come(&error) => {}
            Ok(Err(error)) => return tracing::debug!(reason = %error, "guest time not set"),
            Err(error) => return tracing::debug!(reason = %error, "guest time not set"),
        }
    }
    tracing::debug!("guest time not set: the guest agent did not answer");
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Whether a later attempt may do better.
fn may_come(error: &Error) -> bool {
    matches!(
        error.code,
        code::AGENT_UNRESPONSIVE | code::OPERATION_TIMEOUT
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_agent_that_may_come_is_waited_for() {
        let error = |code| Error {
            code,
            domain: 10,
            message: String::new(),
        };
        assert!(may_come(&error(code::AGENT_UNRESPONSIVE)));
        assert!(!may_come(&error(code::ARGUMENT_UNSUPPORTED)), "no agent");
        assert!(!may_come(&error(code::NO_DOMAIN)));
    }
}
