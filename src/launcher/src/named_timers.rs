//! Named timers, with which a driver runs the timers of a pure state machine.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The delay of a timer whose time is beyond the clock's range, such as that of a huge grace period: longer than any
/// pod lives.
const MAX_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The armed timers.
#[derive(Debug)]
pub(crate) struct NamedTimers<T>(HashMap<T, Instant>);

impl<T> Default for NamedTimers<T> {
    fn default() -> Self {
        NamedTimers(HashMap::new())
    }
}

impl<T: Copy + Eq + Hash> NamedTimers<T> {
    /// Arms a timer. Replaces an armed timer with the same name.
    pub(crate) fn arm(&mut self, timer: T, after: Duration) {
        let now = Instant::now();
        let at = now.checked_add(after).unwrap_or_else(|| now + MAX_DELAY);
        self.0.insert(timer, at);
    }

    /// Stops a timer.
    pub(crate) fn disarm(&mut self, timer: &T) {
        self.0.remove(timer);
    }

    /// Waits for the first timer to expire, and removes it. Waits for ever if none is armed. Dropping the future leaves
    /// the timers unchanged.
    pub(crate) async fn expired(&mut self) -> T {
        let Some((timer, at)) = self.first() else {
            return std::future::pending().await;
        };
        sleep_until(at).await;
        self.0.remove(&timer);
        timer
    }

    fn first(&self) -> Option<(T, Instant)> {
        let armed = self.0.iter().map(|(timer, at)| (*timer, *at));
        armed.min_by_key(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timer_beyond_the_clocks_range_does_not_expire() {
        let mut timers = NamedTimers::default();
        timers.arm("endless", Duration::MAX);
        timers.arm("grace period", Duration::from_secs(i64::MAX as u64));
        timers.arm("soon", Duration::from_millis(1));
        assert_eq!(timers.expired().await, "soon");
        let none = tokio::time::timeout(Duration::from_millis(10), timers.expired());
        assert!(none.await.is_err());
    }

    #[tokio::test]
    async fn timers_expire_in_order_and_are_replaced_by_name() {
        let mut timers = NamedTimers::default();
        timers.arm("late", Duration::from_millis(30));
        timers.arm("early", Duration::from_secs(9));
        timers.arm("early", Duration::from_millis(10));
        assert_eq!(timers.expired().await, "early");
        assert_eq!(timers.expired().await, "late");
        let none = tokio::time::timeout(Duration::from_millis(50), timers.expired());
        assert!(none.await.is_err());
    }
}
