//! The backoff of the observer's resync: when to read the domain again after libvirt did not answer.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The pause before the second attempt; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The time of the next attempt, if one is needed.
#[derive(Debug, Default)]
pub(super) struct ResyncBackoff(Option<Attempt>);

#[derive(Debug)]
struct Attempt {
    at: Instant,
    pause: Duration,
}

impl ResyncBackoff {
    /// Schedules a first attempt, unless one is due already.
    pub(super) fn begin(&mut self) {
        if self.0.is_none() {
            self.observe(false);
        }
    }

    /// Takes in the result of an attempt.
    pub(super) fn observe(&mut self, has_succeeded: bool) {
        let last = self.0.take();
        if has_succeeded {
            return;
        }
        let pause = last.map_or(FIRST_PAUSE, |last| (last.pause * 2).min(LONGEST_PAUSE));
        let at = Instant::now() + pause;
        self.0 = Some(Attempt { at, pause });
    }

    /// Waits until the next attempt is due; for ever if none is needed.
    pub(super) async fn due(&self) {
        match &self.0 {
            Some(attempt) => sleep_until(attempt.at).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_until_an_attempt_succeeds() {
        let mut retry = ResyncBackoff::default();
        let mut after = |has_succeeded| {
            retry.observe(has_succeeded);
            retry.0.as_ref().map(|next| next.pause.as_secs())
        };
        let pauses = [1, 2, 4, 8, 16, 30, 30].map(Some);
        assert_eq!(pauses.map(|_| after(false)), pauses);
        assert_eq!(after(true), None);
        assert_eq!(after(false), Some(1));
    }

    #[test]
    fn failed_reads_after_further_events_do_not_delay_an_attempt() {
        let mut retry = ResyncBackoff::default();
        retry.begin();
        let first = retry.0.as_ref().map(|next| next.at);
        assert!(first.is_some());
        retry.begin();
        assert_eq!(retry.0.as_ref().map(|next| next.at), first);
    }

    #[tokio::test]
    async fn no_attempt_is_due_without_a_failure() {
        let retry = ResyncBackoff::default();
        let due = tokio::time::timeout(Duration::from_millis(10), retry.due());
        assert!(due.await.is_err());
    }
}
