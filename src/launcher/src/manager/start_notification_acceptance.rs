//! The notification of the VM's start: whether virt-handler has accepted it.
//!
//! ```text
//!   [none] ──begin──▶ [unreported] ──notification accepted──▶ [accepted]
//!                          │  └─given up─▶ [lost]: published again when a delete is refused
//!                          └──────── end: the start failed, or the VM has ended ──▶ [none]
//! ```
//!
//! virt-handler decides by the last notification that it has read. If SyncVirtualMachine succeeds while that
//! notification still says `Shutoff`, virt-handler deletes the domain that it has just started. The response of the
//! sync therefore waits until a notification that the VM is alive is accepted, and a delete is refused until then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::notify::{Delivery, Receipt};

/// How long the response of a start waits for the notification to be accepted. After that the response is sent anyway.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time in which virt-handler reads an accepted notification, which it queues first.
const READ_DELAY: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotificationState {
    None,
    Unreported,
    Lost,
    Accepted(Instant),
}

/// The state of the notification of the current start. Clones share the state.
#[derive(Clone)]
pub struct StartNotification(Arc<watch::Sender<NotificationState>>);

impl Default for StartNotification {
    fn default() -> Self {
        StartNotification(Arc::new(watch::Sender::new(NotificationState::None)))
    }
}

impl StartNotification {
    /// A start begins: the domain is about to be defined or started, and no notification of that was accepted yet. If
    /// the guard is dropped before [`StartGuard::succeeded`], the start has failed.
    pub(super) fn begin(&self) -> StartGuard {
        self.0.send_replace(NotificationState::Unreported);
        StartGuard(Some(self.clone()))
    }

    /// Records that the start failed or the VM has ended.
    pub(super) fn end(&self) {
        self.0.send_replace(NotificationState::None);
    }

    /// Whether a start has begun, and virt-handler has not accepted a notification of it.
    pub fn is_unreported(&self) -> bool {
        matches!(
            *self.0.borrow(),
            NotificationState::Unreported | NotificationState::Lost
        )
    }

    /// Whether the notification of the start was given up, and no new one was sent since.
    pub(super) fn is_lost(&self) -> bool {
        *self.0.borrow() == NotificationState::Lost
    }

    /// Tracks a notification, just sent, that the VM is alive.
    pub(super) fn observe(&self, receipt: Receipt) {
        self.change(NotificationState::Lost, NotificationState::Unreported);
        let notification = self.clone();
        tokio::spawn(async move {
            match receipt.await {
                Ok(Delivery::Accepted) => notification.accept(),
                Ok(Delivery::Lost) | Err(_) => {
                    notification.change(NotificationState::Unreported, NotificationState::Lost);
                }
            }
        });
    }

    fn change(&self, from: NotificationState, to: NotificationState) {
        self.0.send_if_modified(|state| {
            let changes = *state == from;
            if changes {
                *state = to;
            }
            changes
        });
    }

    /// Waits until the failure of the start, or the end of the VM, has been published.
    pub async fn wait_until_ended(&self) {
        // Cannot fail: `self` holds the sender.
        let _ = self
            .0
            .subscribe()
            .wait_for(|state| *state == NotificationState::None)
            .await;
    }

    fn accept(&self) {
        self.0.send_if_modified(|state| {
            let is_pending = matches!(
                *state,
                NotificationState::Unreported | NotificationState::Lost
            );
            if is_pending {
                *state = NotificationState::Accepted(Instant::now());
            }
            is_pending
        });
    }

    /// Waits until virt-handler has read that the VM is alive. Returns false if it did not accept the notification in
    /// time.
    pub(super) async fn wait_until_accepted(&self) -> bool {
        let mut states = self.0.subscribe();
        let known = async {
            let is_known = |state: &NotificationState| {
                !matches!(
                    state,
                    NotificationState::Unreported | NotificationState::Lost
                )
            };
            let state = states.wait_for(is_known);
            state.await.map(|state| *state)
        };
        match timeout(ACCEPT_TIMEOUT, known).await {
            Ok(Ok(NotificationState::Accepted(since))) => {
                sleep_until(since + READ_DELAY).await;
                true
            }
            // The VM has ended meanwhile: there is nothing to wait for.
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

/// A start that is under way.
#[must_use]
pub(super) struct StartGuard(Option<StartNotification>);

impl StartGuard {
    /// The domain was started: the state is kept until the VM ends.
    pub(super) fn succeeded(mut self) {
        self.0 = None;
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        if let Some(notification) = &self.0 {
            notification.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn wait_ends_after_acceptance_and_read_delay() {
        let notification = StartNotification::default();
        let _start = notification.begin();
        assert!(notification.is_unreported());
        let (delivered, receipt) = oneshot::channel();
        notification.observe(receipt.shared());
        let begin = Instant::now();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            delivered.send(Delivery::Accepted).unwrap();
        });
        assert!(notification.wait_until_accepted().await);
        let waited = begin.elapsed();
        assert!(
            waited >= Duration::from_millis(300) + READ_DELAY,
            "{waited:?}"
        );
        assert!(!notification.is_unreported());
        let second_start = Instant::now();
        assert!(notification.wait_until_accepted().await);
        assert!(
            second_start.elapsed() < READ_DELAY,
            "a later wait returns at once"
        );
    }

    #[tokio::test]
    async fn wait_without_virt_handler_times_out_and_the_start_stays_unreported() {
        let notification = StartNotification::default();
        let start = notification.begin();
        let (delivered, receipt) = oneshot::channel();
        notification.observe(receipt.shared());
        delivered.send(Delivery::Lost).unwrap();
        let begin = Instant::now();
        assert!(!notification.wait_until_accepted().await);
        assert!(begin.elapsed() >= ACCEPT_TIMEOUT);
        assert!(notification.is_unreported() && notification.is_lost());
        let (_delivered, receipt) = oneshot::channel();
        notification.observe(receipt.shared());
        assert!(
            notification.is_unreported() && !notification.is_lost(),
            "published again"
        );
        drop(start);
        assert!(!notification.is_unreported());
    }

    #[tokio::test]
    async fn failed_start_does_not_stay_unreported() {
        let notification = StartNotification::default();
        drop(notification.begin());
        assert!(!notification.is_unreported());
        notification.begin().succeeded();
        assert!(notification.is_unreported());
    }

    #[tokio::test]
    async fn acceptance_after_the_end_is_ignored() {
        let notification = StartNotification::default();
        let _start = notification.begin();
        let (delivered, receipt) = oneshot::channel();
        notification.observe(receipt.shared());
        notification.end();
        delivered.send(Delivery::Accepted).unwrap();
        tokio::task::yield_now().await;
        assert_eq!(*notification.0.borrow(), NotificationState::None);
    }
}
