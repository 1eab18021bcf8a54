//! libvirt's events of a migration's iterations over the guest's memory.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Event, HypervisorConnection, Subscription};
use tokio::sync::mpsc;

use super::monitor::MigrationLimits;
use crate::blocking;

const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Iterations that wait to be looked at; more are dropped.
const WAITING: usize = 16;

/// libvirt's events of iterations, if the monitor watches them.
pub(super) struct Iterations {
    received: mpsc::Receiver<()>,
    subscription: Option<Subscription>,
}

impl Iterations {
    pub(super) async fn watch(
        limits: MigrationLimits,
        hypervisor: &Arc<dyn HypervisorConnection>,
        domain: &str,
    ) -> Iterations {
        let (sender, received) = mpsc::channel(WAITING);
        if !limits.watches_iterations() {
            return Iterations {
                received,
                subscription: None,
            };
        }
        let domain = domain.to_owned();
        let handler = move |event: Event| {
            if matches!(&event, Event::MigrationIteration { domain: one, .. } if *one == domain) {
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
        Iterations {
            received,
            subscription,
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.subscription.is_some()
    }

    /// Waits for the next iteration; for ever, if none are watched.
    pub(super) async fn next(&mut self) {
        if self.received.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
