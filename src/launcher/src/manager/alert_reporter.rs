//! Sends the alerts that follow from libvirt's events as Kubernetes events, and adds the last panic to notifications.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kubevirt_api::domain_json::DomainStatus;
use libvirt::{DiskFault, Event};

use super::guest_panics::GuestPanics;
use crate::notify::{Alert, AlertPolicy, Notifier, Warning};

/// Sends alerts, and remembers the guest's panics.
pub(super) struct AlertReporter {
    policy: Mutex<AlertPolicy>,
    panics: GuestPanics,
}

impl AlertReporter {
    /// `qemu_log` is the file to which libvirt writes QEMU's output.
    pub(super) fn new(qemu_log: PathBuf) -> AlertReporter {
        AlertReporter {
            policy: Mutex::default(),
            panics: GuestPanics::new(qemu_log),
        }
    }

    /// Sends the alerts that follow from an event of the domain.
    pub(super) async fn observe(&self, event: &Event, notifier: &Notifier) {
        let alert = self.lock_policy().observe(event);
        self.report(alert, notifier).await;
    }

    /// Sends the alert of a VM that is paused by disk errors, unless it was sent for libvirt's event.
    pub(super) async fn observe_pause(
        &self,
        errors: BTreeMap<String, DiskFault>,
        notifier: &Notifier,
    ) {
        let alert = self.lock_policy().observe_pause(errors);
        self.report(alert, notifier).await;
    }

    async fn report(&self, alert: Option<Alert>, notifier: &Notifier) {
        match alert {
            Some(Alert::Panic) => warn(&self.panics.record().await, notifier),
            Some(Alert::Disks(warnings)) => {
                warnings.iter().for_each(|warning| warn(warning, notifier))
            }
            Some(Alert::Device(warning) | Alert::Watchdog(warning)) => warn(&warning, notifier),
            None => {}
        }
    }

    /// Adds the last panic and the number of panics to the status of a notification.
    pub(super) fn add_panic(&self, status: &mut DomainStatus) {
        self.panics.add_to_status(status);
    }

    fn lock_policy(&self) -> MutexGuard<'_, AlertPolicy> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warn(warning: &Warning, notifier: &Notifier) {
    tracing::warn!("{}", warning.message);
    notifier.warning(warning);
}
