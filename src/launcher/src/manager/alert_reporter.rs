//! Sends the alerts that follow from libvirt's events as Kubernetes events, and adds the last panic to notifications.
//!
//! A guest can panic, and let its watchdog expire, as often as it likes: of each there is one alert, and then one a minute
//! with the number of those in between.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubevirt_api::domain_json::DomainStatus;
use libvirt::{DiskFault, Event};
use tokio::time::Instant;

use super::guest_panics::GuestPanics;
use super::vm_end_reason::OutOfMemoryKills;
use crate::notify::{Alert, AlertPolicy, Notifier, Warning};

/// After an alert that the guest can repeat, the next one of its reason is sent after this time.
const REPEATED_ALERT_INTERVAL: Duration = Duration::from_secs(60);

/// Sends alerts, and remembers the guest's panics.
pub(super) struct AlertReporter {
    policy: Mutex<AlertPolicy>,
    rate: Mutex<AlertRate>,
    panics: GuestPanics,
    out_of_memory_kills: OutOfMemoryKills,
}

impl AlertReporter {
    /// `qemu_log` is the file to which libvirt writes QEMU's output.
    pub(super) fn new(qemu_log: PathBuf) -> AlertReporter {
        AlertReporter {
            policy: Mutex::default(),
            rate: Mutex::default(),
            panics: GuestPanics::new(qemu_log),
            out_of_memory_kills: OutOfMemoryKills::since_now(),
        }
    }

    /// Sends the alerts that follow from an event of the domain.
    pub(super) async fn observe(&self, event: &Event, notifier: &Notifier) {
        let alert = self.lock_policy().observe(event);
        self.report(alert, notifier).await;
    }

    /// The VM starts.
    pub(super) async fn observe_start(&self) {
        self.out_of_memory_kills.observe_start().await;
    }

    /// QEMU has ended without being told to: sends the alert if the kernel has killed it for memory.
    pub(super) async fn observe_crash(&self, notifier: &Notifier) {
        if let Some(warning) = self.out_of_memory_kills.observe_crash().await {
            warn(&warning, notifier);
        }
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
            Some(Alert::Panic) => {
                let warning = self.panics.record().await;
                self.warn_at_a_rate(warning, notifier);
            }
            Some(Alert::Watchdog(warning)) => self.warn_at_a_rate(warning, notifier),
            Some(Alert::Disks(warnings)) => {
                warnings.iter().for_each(|warning| warn(warning, notifier))
            }
            Some(Alert::Device(warning)) => warn(&warning, notifier),
            None => {}
        }
    }

    fn warn_at_a_rate(&self, warning: Warning, notifier: &Notifier) {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(warning) = rate.admit(warning, Instant::now()) {
            warn(&warning, notifier);
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

/// When alerts of each reason were sent last, and how many were not sent since.
#[derive(Default)]
struct AlertRate(BTreeMap<&'static str, (Instant, u64)>);

impl AlertRate {
    /// The alert to send, if it is time.
    fn admit(&mut self, mut warning: Warning, now: Instant) -> Option<Warning> {
        if let Some((sent_at, suppressed)) = self.0.get_mut(warning.reason) {
            if now < *sent_at + REPEATED_ALERT_INTERVAL {
                *suppressed += 1;
                return None;
            }
            if *suppressed > 0 {
                warning.message += &format!(" ({suppressed} more since the last event)");
            }
        }
        self.0.insert(warning.reason, (now, 0));
        Some(warning)
    }
}

fn warn(warning: &Warning, notifier: &Notifier) {
    tracing::warn!("{}", warning.message);
    notifier.warning(warning);
}

/// What a condition is about. Each subject's conditions are observed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Settings of the VMI that the running VM does not get.
    UnappliedSettings,
    /// Volumes that are not attached, and media that are not inserted.
    WaitingVolumes,
    /// Changes of devices by a sync that failed.
    FailedChanges,
    /// SR-IOV interfaces that could not be attached.
    FailedHostDevices,
}

/// A condition that exists now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    /// What identifies the condition among those of its subject.
    pub(super) key: String,
    /// The text of its report.
    pub(super) text: String,
    /// How long the condition lasts before it is reported.
    pub(super) patience: Duration,
}

/// The conditions at their last observation. A condition that has ended is forgotten, so that there are never more than
/// exist at once, and one that begins again is reported again. Pure.
#[derive(Debug, Default)]
pub(super) struct ReportedConditions(BTreeMap<(Subject, String), Observed>);

#[derive(Debug, Clone, Copy)]
struct Observed {
    begin: Instant,
    is_reported: bool,
}

impl ReportedConditions {
    /// Observes all conditions of a subject. Returns the texts of those to report now.
    pub(super) fn observe(
        &mut self,
        subject: Subject,
        now: Instant,
        current: impl IntoIterator<Item = Condition>,
    ) -> Vec<String> {
        let (before, others) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|((of, _), _)| *of == subject);
        self.0 = others;
        let before: BTreeMap<_, _> = before;
        let mut reports = Vec::new();
        for Condition {
            key,
            text,
            patience,
        } in current
        {
            let key = (subject, key);
            let new = Observed {
                begin: now,
                is_reported: false,
            };
            let mut observed = before.get(&key).copied().unwrap_or(new);
            if !observed.is_reported && now.saturating_duration_since(observed.begin) >= patience {
                observed.is_reported = true;
                reports.push(text);
            }
            self.0.insert(key, observed);
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_alert_is_sent_once_a_minute_with_a_count() {
        let warning = |reason| Warning {
            reason,
            message: "again".into(),
        };
        let (mut rate, begin) = (AlertRate::default(), Instant::now());
        let mut sent_after = |reason, seconds| {
            let sent = rate.admit(warning(reason), begin + Duration::from_secs(seconds));
            sent.map(|warning| warning.message)
        };
        assert_eq!(sent_after("GuestPanicked", 0).as_deref(), Some("again"));
        for seconds in 1..60 {
            assert_eq!(sent_after("GuestPanicked", seconds), None);
        }
        assert_eq!(sent_after("GuestWatchdog", 59).as_deref(), Some("again"));
        let counted = "again (59 more since the last event)";
        assert_eq!(sent_after("GuestPanicked", 60).as_deref(), Some(counted));
        assert_eq!(sent_after("GuestPanicked", 121).as_deref(), Some("again"));
    }

    fn condition(key: &str, patience: u64) -> Condition {
        Condition {
            key: key.to_owned(),
            text: format!("{key} is so"),
            patience: Duration::from_secs(patience),
        }
    }

    #[test]
    fn condition_is_reported_once_while_it_lasts_and_again_when_it_begins_again() {
        let mut conditions = ReportedConditions::default();
        let now = Instant::now();
        let mut observe = |subject, current: &[&str]| {
            let current = current.iter().map(|key| condition(key, 0));
            conditions.observe(subject, now, current)
        };
        let failed = Subject::FailedChanges;
        assert_eq!(observe(failed, &["a", "b"]), ["a is so", "b is so"]);
        assert_eq!(observe(failed, &["b", "c"]), ["c is so"]);
        assert_eq!(observe(Subject::WaitingVolumes, &["c"]), ["c is so"]);
        assert_eq!(observe(failed, &["a", "b", "c"]), ["a is so"]);
        assert_eq!(observe(Subject::WaitingVolumes, &["c"]), [""; 0]);
    }

    #[test]
    fn condition_is_reported_when_it_has_lasted_for_its_patience() {
        let mut conditions = ReportedConditions::default();
        let start = Instant::now();
        let mut observe = |seconds, keys: &[&str]| {
            let current = keys.iter().map(|key| condition(key, 10));
            let now = start + Duration::from_secs(seconds);
            conditions.observe(Subject::WaitingVolumes, now, current)
        };
        assert_eq!(observe(0, &["a"]), [""; 0]);
        assert_eq!(observe(9, &["a"]), [""; 0]);
        assert_eq!(observe(10, &["a"]), ["a is so"]);
        assert_eq!(observe(11, &[]), [""; 0]);
        assert_eq!(observe(12, &["a"]), [""; 0], "it begins again");
    }

    #[test]
    fn only_existing_conditions_are_kept() {
        let mut conditions = ReportedConditions::default();
        for number in 0..10_000 {
            let current = [condition(&number.to_string(), 0)];
            conditions.observe(Subject::UnappliedSettings, Instant::now(), current);
        }
        assert_eq!(conditions.0.len(), 1);
    }
}
