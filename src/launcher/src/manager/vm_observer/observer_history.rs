//! The observer's state between events.

use std::sync::Arc;

use domain::libvirt_spec::DomainSpec;

use super::super::last_notification::LastNotification;
use super::super::vm_end_reason::EndReason;
use super::resync_backoff::ResyncBackoff;
use crate::libvirt_client::DomainSnapshot;
use crate::notify::NotificationPolicy;

/// The observer's state between events.
#[derive(Default)]
pub(in crate::manager) struct ObserverHistory {
    /// Whether the task has run before, so that events between its runs may be lost.
    pub(super) has_run: bool,
    /// Decides which notifications follow from an event.
    pub(super) policy: NotificationPolicy,
    /// The domain as it was last read, for notifications while libvirt gives no answer.
    pub(super) last_snapshot: Option<DomainSnapshot>,
    /// The reason of the VM's end, if it is known before libvirt reports the end.
    pub(super) end: EndReason,
    pub(super) last_notification: LastNotification,
    /// Whether the last attempt to read the domain failed.
    pub(super) last_read_failed: bool,
    /// Whether the last resync published the domain, but not the disk errors for which it is paused.
    pub(super) is_pause_unreported: bool,
    /// When to read the domain again, after a resync or a read after an event failed.
    pub(super) resync_backoff: ResyncBackoff,
}

impl ObserverHistory {
    /// Logs a failed resync, and schedules the next attempt.
    pub(super) fn observe_resync(&mut self, result: Result<(), String>) {
        if let Err(reason) = &result {
            tracing::warn!(
                reason,
                "the domain could not be read after libvirt's events may have been lost"
            );
        }
        self.resync_backoff.observe(result.is_ok());
    }

    /// The domain's spec as it was last read.
    pub(super) fn spec(&self) -> Option<Arc<DomainSpec>> {
        self.last_snapshot.as_ref()?.spec.clone()
    }
}
