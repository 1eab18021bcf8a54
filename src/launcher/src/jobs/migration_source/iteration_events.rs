//! libvirt's events of the iterations over the guest's memory.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Event, HypervisorConnection, Subscription};
use tokio::sync::mpsc;

use super::monitor::MigrationLimits;
use crate::blocking;

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
