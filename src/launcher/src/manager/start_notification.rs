//! Whether virt-handler knows that the VM being started is alive.
//!
//! ```text
//!   [none] ──begin──▶ [unreported] ──notification accepted──▶ [accepted]
//!                          │  └─given up─▶ [lost]: published again when a delete is refused
//!                          └──────── end: the start failed, or the VM has ended ──▶ [none]
//! ```
//!
//! virt-handler decides from the last notification that it has read: when SyncVirtualMachine succeeds while that
//! notification still says `Shutoff`, virt-handler deletes the domain that it has just started. So the answer waits for
//! a notification that the VM is alive, and a delete is refused until that notification is accepted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::notify::{Delivery, Receipt};

/// How long a start waits for the notification to be accepted. Without a virt-handler to accept it, the
/// start is answered all the same.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(2);
/// virt-handler queues accepted notifications; it has read the notification after this time.
const LEAD: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Report {
    None,
    Unreported,
    Lost,
    Accepted(Instant),
}

/// The report of the current start. Clones share it.
#[derive(Clone)]
pub struct StartNotification(Arc<watch::Sender<Report>>);

impl Default for StartNotification {
    fn default() -> Self {
        StartNotification(Arc::new(watch::Sender::new(Report::None)))
    }
}

impl StartNotification {
    /// The domain is about to be defined or started; no notification of it was accepted yet. The start has failed if
    /// the guard is dropped before [`StartGuard::succeeded`].
    pub(super) fn begin(&self) -> StartGuard {
        self.0.send_replace(Report::Unreported);
        StartGuard(Some(self.clone()))
    }

    /// The start failed, or the VM has ended.
    pub(super) fn end(&self) {
        self.0.send_replace(Report::None);
    }

    /// A start is under way or over, and virt-handler has not accepted a notification of it.
    pub fn is_unreported(&self) -> bool {
        matches!(*self.0.borrow(), Report::Unreported | Report::Lost)
    }

    /// The notification of the start was given up, and none is on its way since.
    pub(super) fn is_lost(&self) -> bool {
        *self.0.borrow() == Report::Lost
    }

    /// A notification that the VM is alive is on its way.
    pub(super) fn observe(&self, receipt: Receipt) {
        self.change(Report::Lost, Report::Unreported);
        let report = self.clone();
        tokio::spawn(async move {
            match receipt.await {
                Ok(Delivery::Accepted) => report.accept(),
                Ok(Delivery::Lost) | Err(_) => {
                    report.change(Report::Unreported, Report::Lost);
                }
            }
        });
    }

    fn change(&self, from: Report, to: Report) {
        self.0.send_if_modified(|report| {
            let changes = *report == from;
            if changes {
                *report = to;
            }
            changes
        });
    }

    /// Waits until no start is under way or over: the end of the VM has been published.
    pub async fn ended(&self) {
        // Cannot fail: `self` holds the sender.
        let _ = self
            .0
            .subscribe()
            .wait_for(|report| *report == Report::None)
            .await;
    }

    fn accept(&self) {
        self.0.send_if_modified(|report| {
            let is_news = matches!(*report, Report::Unreported | Report::Lost);
            if is_news {
                *report = Report::Accepted(Instant::now());
            }
            is_news
        });
    }

    /// Waits until virt-handler has read that the VM is alive. False when it did not accept the notification
    /// in time.
    pub(super) async fn accepted(&self) -> bool {
        let mut reports = self.0.subscribe();
        let known = async {
            let is_known = |report: &Report| !matches!(report, Report::Unreported | Report::Lost);
            let report = reports.wait_for(is_known);
            report.await.map(|report| *report)
        };
        match timeout(ACCEPT_TIMEOUT, known).await {
            Ok(Ok(Report::Accepted(since))) => {
                sleep_until(since + LEAD).await;
                true
            }
            // The VM has ended meanwhile: there is nothing to report.
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

/// A start that is under way.
#[must_use]
pub(super) struct StartGuard(Option<StartNotification>);

impl StartGuard {
    /// The domain was started: its report ends with the VM.
    pub(super) fn succeeded(mut self) {
        self.0 = None;
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        if let Some(report) = &self.0 {
            report.end();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn answer_waits_for_the_notification_and_the_lead() {
        let report = StartNotification::default();
        let _start = report.begin();
        assert!(report.is_unreported());
        let (delivered, receipt) = oneshot::channel();
        report.observe(receipt.shared());
        let begin = Instant::now();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            delivered.send(Delivery::Accepted).unwrap();
        });
        assert!(report.accepted().await);
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_millis(300) + LEAD, "{waited:?}");
        assert!(!report.is_unreported());
        let second_start = Instant::now();
        assert!(report.accepted().await);
        assert!(second_start.elapsed() < LEAD, "nobody waits twice");
    }

    #[tokio::test]
    async fn wait_without_virt_handler_is_bounded_and_the_start_stays_unreported() {
        let report = StartNotification::default();
        let start = report.begin();
        let (delivered, receipt) = oneshot::channel();
        report.observe(receipt.shared());
        delivered.send(Delivery::Lost).unwrap();
        let begin = Instant::now();
        assert!(!report.accepted().await);
        assert!(begin.elapsed() >= ACCEPT_TIMEOUT);
        assert!(report.is_unreported() && report.is_lost());
        let (_delivered, receipt) = oneshot::channel();
        report.observe(receipt.shared());
        assert!(
            report.is_unreported() && !report.is_lost(),
            "published again"
        );
        drop(start);
        assert!(!report.is_unreported());
    }

    #[tokio::test]
    async fn only_a_start_that_succeeded_stays_unreported() {
        let report = StartNotification::default();
        drop(report.begin());
        assert!(!report.is_unreported());
        report.begin().succeeded();
        assert!(report.is_unreported());
    }

    #[tokio::test]
    async fn late_acceptance_does_not_revive_an_ended_start() {
        let report = StartNotification::default();
        let _start = report.begin();
        let (delivered, receipt) = oneshot::channel();
        report.observe(receipt.shared());
        report.end();
        delivered.send(Delivery::Accepted).unwrap();
        tokio::task::yield_now().await;
        assert_eq!(*report.0.borrow(), Report::None);
    }
}
