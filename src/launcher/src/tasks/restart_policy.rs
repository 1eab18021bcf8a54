//! Whether a task that ended is restarted. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// This many ends within [`WINDOW`] count as a failure that a restart does not repair.
const ENDS: usize = 3;
const WINDOW: Duration = Duration::from_secs(60);

/// What follows from a task's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Restart the task.
    Restart,
    /// It ends again and again.
    GiveUp,
}

/// The ends of one task.
#[derive(Debug, Default)]
pub(super) struct RestartPolicy {
    ends: VecDeque<Instant>,
}

impl RestartPolicy {
    /// The task ended, unasked.
    pub(super) fn observe_end(&mut self, now: Instant) -> Decision {
        self.ends.push_back(now);
        while self
            .ends
            .front()
            .is_some_and(|end| now.duration_since(*end) > WINDOW)
        {
            self.ends.pop_front();
        }
        if self.ends.len() >= ENDS {
            Decision::GiveUp
        } else {
            Decision::Restart
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decisions(seconds: &[u64]) -> Vec<Decision> {
        let begin = Instant::now();
        let mut policy = RestartPolicy::default();
        let at = |second: &u64| policy.observe_end(begin + Duration::from_secs(*second));
        seconds.iter().map(at).collect()
    }

    #[test]
    fn third_end_within_a_minute_is_the_last() {
        use Decision::{GiveUp, Restart};
        assert_eq!(decisions(&[0, 0, 0]), [Restart, Restart, GiveUp]);
        assert_eq!(decisions(&[0, 30, 60]), [Restart, Restart, GiveUp]);
        assert_eq!(decisions(&[0, 30, 61]), [Restart; 3]);
        assert_eq!(
            decisions(&[0, 100, 200, 259, 260]),
            [Restart, Restart, Restart, Restart, GiveUp]
        );
    }
}
