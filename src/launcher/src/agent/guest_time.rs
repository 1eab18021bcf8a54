//! Sets the guest's clock after a pause, through the guest agent. Best effort, as in KubeVirt: a guest that keeps
//! time by network corrects its clock anyway.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libvirt::{Domain, Error, code};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{AGENT_TIMEOUT, shorten};
use crate::libvirt_client::{AGENT, CallError, Client};

/// Before each attempt: the agent resumes together with the guest.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(60);

/// The task that sets the guest's clock; dropping this ends it.
pub(crate) struct GuestTimeSync {
    _task: AbortOnDropHandle<()>,
}

impl GuestTimeSync {
    /// Sets the guest's clock to the host's as soon as its agent answers, for a minute at most.
    pub(crate) fn start(client: Client, domain: Arc<dyn Domain>) -> GuestTimeSync {
        let task = tokio::spawn(set_clock(client, domain));
        GuestTimeSync {
            _task: AbortOnDropHandle::new(task),
        }
    }
}

async fn set_clock(client: Client, domain: Arc<dyn Domain>) {
    let mut latest = None;
    let begin = Instant::now();
    // Each call holds it for as long as it occupies a thread, whether or not it is waited for.
    let in_call = Arc::new(());
    while begin.elapsed() < TIMEOUT {
        tokio::time::sleep(RETRY_INTERVAL).await;
        if Arc::strong_count(&in_call) > 1 {
            continue;
        }
        let mutex = Arc::clone(&in_call);
        let set = client.on(&domain, "setting the guest's time", AGENT, move |domain| {
            let _held = &mutex;
            domain.set_agent_timeout(AGENT_TIMEOUT)?;
            domain.set_time(now()).map_err(shorten)
        });
        match set.await {
            Ok(()) => return tracing::info!("guest time set"),
            Err(CallError::Libvirt(error)) if is_permanent(&error) => {
                return tracing::debug!(reason = %error, "guest time not set");
            }
            Err(error) => latest = Some(error),
        }
    }
    if let Some(error) = latest {
        tracing::warn!(reason = %error, "guest time not set within {TIMEOUT:?}");
    }
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Whether every later attempt fails too: the guest has no agent, its agent cannot set the time, or the guest is gone.
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
