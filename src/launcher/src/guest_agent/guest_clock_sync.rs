//! Sets the guest's clock after a pause, through the guest agent. Best effort, as in KubeVirt: a guest that uses a time
//! server corrects its clock anyway.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libvirt::{Domain, Error, code};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{AGENT_TIMEOUT, shorten};
use crate::libvirt_client::{AGENT, CallError, Client};

/// The pause before each attempt, also the first one, since the agent resumes together with the guest.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long setting the clock is repeated.
const SET_TIME_TIMEOUT: Duration = Duration::from_secs(60);

/// The task that sets the guest's clock; dropping this ends it.
pub(crate) struct GuestClockSync {
    _task: AbortOnDropHandle<()>,
}

impl GuestClockSync {
    /// Starts a task that sets the guest's clock to the host's as soon as the agent answers, and that gives up after
    /// [`SET_TIME_TIMEOUT`].
    pub(crate) fn start(client: Client, domain: Arc<dyn Domain>) -> GuestClockSync {
        let task = tokio::spawn(set_clock(client, domain));
        GuestClockSync {
            _task: AbortOnDropHandle::new(task),
        }
    }
}

async fn set_clock(client: Client, domain: Arc<dyn Domain>) {
    let mut last_error = None;
    let begin = Instant::now();
    // Each call holds a clone for as long as it occupies a thread, also after its caller has given up.
    let in_call = Arc::new(());
    while begin.elapsed() < SET_TIME_TIMEOUT {
        tokio::time::sleep(RETRY_INTERVAL).await;
        if Arc::strong_count(&in_call) > 1 {
            continue;
        }
        let call_guard = Arc::clone(&in_call);
        let set = client.on(&domain, "setting the guest's time", AGENT, move |domain| {
            let _guard = &call_guard;
            domain.set_agent_timeout(AGENT_TIMEOUT)?;
            domain.set_time(now()).map_err(shorten)
        });
        match set.await {
            Ok(()) => return tracing::info!("guest time set"),
            Err(CallError::Libvirt(error)) if is_permanent(&error) => {
                return tracing::debug!(reason = %error, "guest time not set");
            }
            Err(error) => last_error = Some(error),
        }
    }
    if let Some(error) = last_error {
        tracing::warn!(reason = %error, "guest time not set within {SET_TIME_TIMEOUT:?}");
    }
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Whether every later attempt will fail too: the guest has no agent, its agent cannot set the time, or the guest is
/// gone.
fn is_permanent(error: &Error) -> bool {
    matches!(
        error.code,
        code::OPERATION_UNSUPPORTED | code::ARGUMENT_UNSUPPORTED | code::NO_DOMAIN
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transient_error_is_retried() {
        let error = |code| Error {
            code,
            domain: 10,
            message: String::new(),
        };
        for transient in [
            code::INTERNAL_ERROR,
            code::OPERATION_INVALID,
            code::OPERATION_TIMEOUT,
            code::AGENT_UNRESPONSIVE,
            code::AGENT_COMMAND_TIMEOUT,
            code::AGENT_COMMAND_FAILED,
        ] {
            assert!(!is_permanent(&error(transient)), "{transient}");
        }
        assert!(is_permanent(&error(code::ARGUMENT_UNSUPPORTED)), "no agent");
        assert!(is_permanent(&error(code::OPERATION_UNSUPPORTED)));
        assert!(is_permanent(&error(code::NO_DOMAIN)));
    }
}
