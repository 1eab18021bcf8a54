//! Decides whether a task that ended is restarted. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// After this many ends within [`ENDS_WINDOW`], the task is given up.
const MAX_ENDS_IN_WINDOW: usize = 3;
const ENDS_WINDOW: Duration = Duration::from_secs(60);

/// The decision after a task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestartDecision {
    /// Restart the task.
    Restart,
    /// Give the task up, because it keeps ending.
    GiveUp,
}

/// The ends of one task.
#[derive(Debug, Default)]
pub(super) struct RestartPolicy {
    ends: VecDeque<Instant>,
}

impl RestartPolicy {
    /// Takes in that the task has ended.
    pub(super) fn observe_end(&mut self, now: Instant) -> RestartDecision {
        self.ends.push_back(now);
        while self
            .ends
            .front()
            .is_some_and(|end| now.duration_since(*end) > ENDS_WINDOW)
        {
            self.ends.pop_front();
        }
        if self.ends.len() >= MAX_ENDS_IN_WINDOW {
            RestartDecision::GiveUp
        } else {
            RestartDecision::Restart
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions(seconds: &[u64]) -> Vec<RestartDecision> {
        let begin = Instant::now();
        let mut policy = RestartPolicy::default();
        let at = |second: &u64| policy.observe_end(begin + Duration::from_secs(*second));
        seconds.iter().map(at).collect()
    }

    #[test]
    fn task_is_given_up_after_its_third_end_within_a_minute() {
        use RestartDecision::{GiveUp, Restart};
        assert_eq!(decisions(&[0, 0, 0]), [Restart, Restart, GiveUp]);
        assert_eq!(decisions(&[0, 30, 60]), [Restart, Restart, GiveUp]);
        assert_eq!(decisions(&[0, 30, 61]), [Restart; 3]);
        assert_eq!(
            decisions(&[0, 100, 200, 259, 260]),
            [Restart, Restart, Restart, Restart, GiveUp]
        );
    }
}
