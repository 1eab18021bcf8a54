//! The work queue for one key, as in client-go: a key added while it is processed is processed once more.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The delay after the first error; each further consecutive error doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// The maximum delay after an error.
const MAXIMUM_RETRY: Duration = Duration::from_secs(1000);

/// The state of the queue, without the waiting.
#[derive(Debug, Default)]
struct State {
    dirty: bool,
    working: bool,
    due_at: Option<Instant>,
    failures: u32,
}

impl State {
    fn add_at(&mut self, at: Instant) {
        // The earlier of two delayed additions is used.
        self.due_at = Some(self.due_at.map_or(at, |due_at| due_at.min(at)));
    }

    fn retry_delay(&mut self) -> Duration {
        let delay =
            FIRST_RETRY.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures += 1;
        delay.min(MAXIMUM_RETRY)
    }

    /// Takes the key if it is due.
    fn take(&mut self, now: Instant) -> bool {
        if self.due_at.is_some_and(|due_at| due_at <= now) {
            self.due_at = None;
            self.dirty = true;
        }
        if !self.dirty || self.working {
            return false;
        }
        self.dirty = false;
        self.working = true;
        true
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    state: Mutex<State>,
    changed: Notify,
}

impl WorkQueue {
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
        result
    }

    pub(super) fn add(&self) {
        self.update(|state| state.dirty = true);
    }

    pub(super) fn add_after(&self, delay: Duration) {
        self.update(|state| state.add_at(Instant::now() + delay));
    }

    /// Adds the key again after the delay that follows an error.
    pub(super) fn retry(&self) {
        self.update(|state| {
            let delay = state.retry_delay();
            state.add_at(Instant::now() + delay);
        });
    }

    /// Resets the retry delay after a success.
    pub(super) fn forget_failures(&self) {
        self.update(|state| state.failures = 0);
    }

    /// Waits until the key is due, and takes it.
    pub(super) async fn take(&self) {
        loop {
            let changed = self.changed.notified();
            let due_at = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.take(Instant::now()) {
                    return;
                }
                state.due_at
            };
            match due_at {
                Some(at) => drop(tokio::time::timeout_at(at.into(), changed).await),
                None => changed.await,
            }
        }
    }

    pub(super) fn done(&self) {
        self.update(|state| state.working = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_added_while_processed_is_processed_again() {
        let (mut state, now) = (State::default(), Instant::now());
        assert!(!state.take(now));
        state.dirty = true;
        assert!(state.take(now) && !state.take(now));
        state.dirty = true;
        state.dirty = true;
        assert!(!state.take(now), "one at a time");
        state.working = false;
        assert!(state.take(now));
        state.working = false;
        assert!(!state.take(now));
    }

    #[test]
    fn the_earlier_of_two_delayed_additions_is_used() {
        let (mut state, now) = (State::default(), Instant::now());
        state.add_at(now + Duration::from_secs(5));
        state.add_at(now + Duration::from_secs(1));
        state.add_at(now + Duration::from_secs(3));
        assert!(!state.take(now) && state.take(now + Duration::from_secs(1)));
        state.working = false;
        assert!(!state.take(now + Duration::from_secs(9)));
    }

    #[test]
    fn consecutive_errors_double_the_retry_delay() {
        let mut state = State::default();
        let delays: Vec<u128> = (0..4).map(|_| state.retry_delay().as_millis()).collect();
        assert_eq!(delays, [5, 10, 20, 40]);
        state.failures = 63;
        assert_eq!(state.retry_delay(), MAXIMUM_RETRY);
    }
}
