//! Failures that a peer's retries repeat: virt-handler sends a request that failed again every few seconds. The reason is
//! logged once; after that a short line counts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The latest failure of each request, and how often it came in a row.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailures(Mutex<HashMap<&'static str, Failure>>);

#[derive(Debug)]
struct Failure {
    reason: String,
    times: u64,
}

impl RepeatedFailures {
    /// Logs that `what` failed: with the reason if it differs from the latest.
    pub(crate) fn log(&self, what: &'static str, reason: &str) {
        match self.count(what, reason) {
            1 => tracing::error!(reason, "{what}: failed"),
            times => tracing::error!("{what}: failed {times} times, for the same reason"),
        }
    }

    /// `what` has not failed any more, so that its next failure is logged with the reason.
    pub(crate) fn forget(&self, what: &'static str) {
        self.lock().remove(what);
    }

    /// How often `what` has failed in a row for this reason, this time included.
    pub(crate) fn count(&self, what: &'static str, reason: &str) -> u64 {
        let mut failures = self.lock();
        let failure = failures.entry(what).or_insert_with(|| Failure {
            reason: reason.to_owned(),
            times: 0,
        });
        if failure.reason != reason {
            *failure = Failure {
                reason: reason.to_owned(),
                times: 0,
            };
        }
        failure.times = failure.times.saturating_add(1);
        failure.times
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that `work` logs.
    fn logged(work: impl FnOnce(&RepeatedFailures)) -> Vec<String> {
        let log = tempfile::NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(log.reopen().unwrap());
        tracing::subscriber::with_default(subscriber.finish(), || {
            work(&RepeatedFailures::default());
        });
        let log = std::fs::read_to_string(log.path()).unwrap();
        log.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn reason_is_logged_once_until_it_changes_or_the_request_succeeds() {
        let lines = logged(|failures| {
            for reason in ["no disk", "no disk", "no disk", "no network"] {
                failures.log("sync", reason);
            }
            failures.log("pause", "no network");
            failures.forget("sync");
            failures.log("sync", "no network");
        });
        assert_eq!(
            lines,
            [
                "ERROR sync: failed reason=\"no disk\"",
                "ERROR sync: failed 2 times, for the same reason",
                "ERROR sync: failed 3 times, for the same reason",
                "ERROR sync: failed reason=\"no network\"",
                "ERROR pause: failed reason=\"no network\"",
                "ERROR sync: failed reason=\"no network\"",
            ]
        );
    }
}
