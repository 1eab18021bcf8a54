//! A start that is refused: the launcher tells virt-handler why before it ends.
//!
//! virt-handler makes the pod's notification socket after it has connected to the command socket, and connects only to a
//! pod that runs. So the launcher serves the command socket without a VM. virt-handler records the event that it is sent,
//! and the refusal of its sync as the VMI's condition `Synchronized`.
//!
//! ```text
//! refused ─▶ serve the command socket ─▶ event accepted ─▶ sync refused ─▶ exit
//!                     └───── time is up, delete, signal ─────┘
//! ```

mod end_rule;

use hook_host::{CollectError, error_chain, printable};
use tokio::sync::watch;
use tokio::time::Instant;

use super::composition::involved_object;
use crate::command_server::{CommandServer, HandlerRequests, RefusingService};
use crate::instance_lock::InstanceLockError;
use crate::manager::Identity;
use crate::notify::{Notifier, Receipt, RetryTimes, Warning};
use crate::paths::Paths;
use crate::termination_message;
use end_rule::Progress;

/// The reason of events about a launcher that cannot start or go on, where no hook is the cause.
pub(super) const LAUNCHER_FAILED: &str = "LauncherFailed";
/// Maximum length of an event's message in bytes: the limit of Kubernetes' events, less what `printable` adds to a text
/// that it cuts.
const MAX_MESSAGE_BYTES: usize = 980;

/// The event about an error that ends the launcher.
pub(super) fn event_of(error: &anyhow::Error) -> Warning {
    let reason = match error.downcast_ref::<CollectError>() {
        Some(CollectError::Refused(_)) => "HookDenied",
        Some(CollectError::Policy(_) | CollectError::Record(_)) | None => LAUNCHER_FAILED,
        Some(_) => "HookFailed",
    };
    Warning {
        reason,
        message: printable(&error_chain(error.as_ref()), MAX_MESSAGE_BYTES),
    }
}

/// The start of one VM that was refused.
pub(super) struct RefusedStart<'a> {
    pub(super) paths: &'a Paths,
    pub(super) identity: &'a Identity,
    pub(super) error: &'a anyhow::Error,
}

impl RefusedStart<'_> {
    /// Tells virt-handler. Takes 45 s at most, and hardly longer than virt-handler needs.
    pub(super) async fn tell(self, signal: watch::Receiver<bool>) {
        let reason = error_chain(self.error.as_ref());
        // Already now: the container may be killed meanwhile.
        termination_message::write(&reason);
        tracing::error!(
            reason,
            "the start is refused; virt-handler is told before the launcher ends"
        );
        let notifier = Notifier::start(
            &self.paths.notify_socket(),
            involved_object(self.identity),
            RetryTimes::default(),
        );
        let event = notifier.warning_with_receipt(&event_of(self.error));
        let service = RefusingService::new(
            &reason,
            self.identity.clone(),
            self.paths.ready_socket(),
            notifier.clone(),
            event.clone(),
        );
        let requests = service.requests();
        let server = self.serve(service);
        wait(event, requests, signal, server.is_some()).await;
        if let Some(server) = server {
            server.stop().await;
        }
    }

    /// Serves the command socket, unless another launcher does.
    fn serve(&self, service: RefusingService) -> Option<CommandServer> {
        let lock_error = self.error.downcast_ref();
        if let Some(InstanceLockError::Refused { .. }) = lock_error {
            return None;
        }
        let served = CommandServer::start(self.paths, service).and_then(|mut server| {
            server.mark_ready(self.paths)?;
            Ok(server)
        });
        let log = |error: &_| tracing::error!(reason = %error, "virt-handler cannot be told");
        served.inspect_err(log).ok()
    }
}

/// Waits until virt-handler knows the reason, does not come, or wants the launcher to end.
async fn wait(
    mut event: Receipt,
    mut requests: watch::Receiver<HandlerRequests>,
    mut signal: watch::Receiver<bool>,
    served: bool,
) {
    let refused_at = Instant::now();
    let mut progress = Progress {
        served,
        ..Progress::default()
    };
    loop {
        tokio::select! {
            _ = &mut event, if progress.event_settled.is_none() => {
                progress.event_settled = Some(refused_at.elapsed());
            }
            Ok(()) = requests.changed() => {
                let HandlerRequests { start, end } = *requests.borrow_and_update();
                if start {
                    progress.start_refused.get_or_insert(refused_at.elapsed());
                }
                if end {
                    progress.end_requested.get_or_insert(refused_at.elapsed());
                }
            }
            Ok(_) = signal.wait_for(|signalled| *signalled), if progress.end_requested.is_none() => {
                progress.end_requested = Some(refused_at.elapsed());
            }
            () = tokio::time::sleep_until(refused_at + progress.end()) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn event_is_about_the_hook_only_where_a_hook_is_the_cause() {
        let collect = |error: CollectError| {
            let failed: Result<(), _> = Err(error);
            failed.context("collecting hooks").err()
        };
        for (error, reason) in [
            (
                collect(CollectError::Refused("no wish".into())),
                "HookDenied",
            ),
            (
                collect(CollectError::Unusable("no module".into())),
                "HookFailed",
            ),
            (
                collect(CollectError::Scan("no directory".into())),
                "HookFailed",
            ),
            (Some(anyhow!("no daemon")), "LauncherFailed"),
        ] {
            let event = error.as_ref().map(event_of);
            assert_eq!(event.map(|event| event.reason), Some(reason), "{error:?}");
        }
    }

    #[test]
    fn message_is_printable_and_fits_into_an_event() {
        let long = anyhow!("x\u{1b}[2J\n".repeat(10_000));
        let message = event_of(&long).message;
        assert!(
            message.len() < 1024 && message.chars().all(hook_host::is_printable),
            "{message}"
        );
    }
}
