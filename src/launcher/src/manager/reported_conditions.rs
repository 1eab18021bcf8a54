//! Conditions of the VM that are reported as Kubernetes events: each once while it lasts.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

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
