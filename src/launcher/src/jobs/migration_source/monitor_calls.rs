//! Calls of libvirt while the migrate call runs: state, statistics, and the monitor's actions.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Domain, Event, HypervisorConnection, JobStats, JobType, State, Subscription};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::monitor::{Action, MigrationLimits};
use crate::blocking;
use crate::jobs::{JobError, domain_call};

/// Timeout of queries, and of requests that QEMU answers at once.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an abort, as in KubeVirt.
const ABORT_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause before an abort is repeated: for a moment after the migrate call, libvirt has no job yet.
const ABORT_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The domain's state.
pub(super) async fn state(domain: &Arc<dyn Domain>) -> Result<State, JobError> {
    let what = "asking for the domain's state";
    domain_call(domain, what, QUERY_TIMEOUT, |domain| domain.state()).await
}

/// The statistics of the running migration; `None` if libvirt gives none.
pub(super) async fn stats(domain: &Arc<dyn Domain>) -> Option<JobStats> {
    let stats = domain_call(
        domain,
        "asking for the migration's progress",
        QUERY_TIMEOUT,
        |domain| domain.job_stats(),
    );
    match stats.await {
        Ok(stats) => (stats.job_type == JobType::Unbounded).then_some(stats),
        Err(error) => {
            tracing::debug!(reason = %error, "no progress of the migration is known");
            None
        }
    }
}

/// The result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionResult {
    /// libvirt has carried the action out, or has accepted an abort.
    Done,
    /// libvirt refused the action.
    Refused,
    /// libvirt gave no answer in time, and may still carry the action out.
    Unanswered,
}

/// Carries out an action of the monitor.
pub(super) async fn carry_out(domain: &Arc<dyn Domain>, action: Action) -> ActionResult {
    match action {
        Action::Abort(cause) => {
            tracing::warn!(reason = %cause, "aborting the migration");
            abort(domain).await
        }
        Action::StartPostCopy => {
            let what = "continuing the guest on the target (post-copy)";
            request(domain, what, |domain| domain.start_post_copy()).await
        }
        Action::Suspend => {
            let what = "pausing the guest so that the migration completes";
            request(domain, what, |domain| domain.suspend()).await
        }
        Action::SetDowntime(milliseconds) | Action::SetMaxDowntime(milliseconds) => {
            let what = "setting the longest downtime of the migration";
            let set = move |domain: &dyn Domain| domain.set_max_downtime(milliseconds);
            tracing::info!(milliseconds, "{what}");
            request(domain, what, set).await
        }
    }
}

async fn request(
    domain: &Arc<dyn Domain>,
    what: &'static str,
    call: impl FnOnce(&dyn Domain) -> libvirt::Result<()> + Send + 'static,
) -> ActionResult {
    match domain_call(domain, what, QUERY_TIMEOUT, call).await {
        Ok(()) => {
            tracing::info!("{what}: done");
            ActionResult::Done
        }
        Err(error) => {
            tracing::warn!(reason = %error, "{what}: failed");
            failed_action(&error)
        }
    }
}

fn failed_action(error: &JobError) -> ActionResult {
    match error {
        JobError::NoAnswer(_) => ActionResult::Unanswered,
        _ => ActionResult::Refused,
    }
}

async fn abort(domain: &Arc<dyn Domain>) -> ActionResult {
    let deadline = Instant::now() + ABORT_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let call = domain_call(domain, "aborting the migration", left, |domain| {
            domain.abort_job()
        });
        match call.await {
            Ok(()) => return ActionResult::Done,
            Err(JobError::Libvirt(error)) if is_too_early(&error) && Instant::now() < deadline => {
                tokio::time::sleep(ABORT_RETRY_INTERVAL).await;
            }
            Err(error) => {
                tracing::error!(reason = %error, "the migration is not aborted");
                return failed_action(&error);
            }
        }
    }
}

/// Whether libvirt has not started the job yet.
fn is_too_early(error: &libvirt::Error) -> bool {
    error.is_operation_invalid() && error.message.contains("no job is active")
}

const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of queued events; further ones are dropped.
const MAX_QUEUED_EVENTS: usize = 16;

/// libvirt's events of iterations, if the monitor watches them.
pub(super) struct IterationEvents {
    received: mpsc::Receiver<()>,
    subscription: Option<Subscription>,
}

impl IterationEvents {
    /// Subscribes to the events, if the monitor watches iterations.
    pub(super) async fn watch(
        limits: MigrationLimits,
        hypervisor: &Arc<dyn HypervisorConnection>,
        domain: &str,
    ) -> IterationEvents {
        let (sender, received) = mpsc::channel(MAX_QUEUED_EVENTS);
        if !limits.watches_iterations() {
            return IterationEvents {
                received,
                subscription: None,
            };
        }
        let domain = domain.to_owned();
        let handler = move |event: Event| {
            if matches!(&event, Event::MigrationIteration { domain: migrating, .. } if *migrating == domain)
            {
                let _ = sender.try_send(());
            }
        };
        let hypervisor = Arc::clone(hypervisor);
        let subscribe = move || hypervisor.subscribe(Box::new(handler));
        let subscribed =
            blocking::call("registering for iterations", SUBSCRIBE_TIMEOUT, subscribe).await;
        let subscription = match subscribed {
            Ok(Ok(subscription)) => Some(subscription),
            other => {
                tracing::error!(?other, "the iterations of the migration are not known");
                None
            }
        };
        IterationEvents {
            received,
            subscription,
        }
    }

    /// Whether the events are received.
    pub(super) fn is_watched(&self) -> bool {
        self.subscription.is_some()
    }

    /// Waits for the next iteration; for ever if the events are not received.
    pub(super) async fn next(&mut self) {
        if self.received.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
