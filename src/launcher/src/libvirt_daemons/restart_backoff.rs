//! Decides how long to wait before a daemon is restarted. Pure.

use std::time::Duration;

/// A daemon that has run for this long counts as healthy.
const HEALTHY_RUN_TIME: Duration = Duration::from_secs(10);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The first pause, which is KubeVirt's: a daemon that crashes at once must not occupy a CPU.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The backoff policy of one daemon.
#[derive(Debug, Clone, Copy)]
pub(super) enum Backoff {
    /// The pause is always 1 s, as in KubeVirt.
    Fixed,
    /// No pause after a healthy run; otherwise 1 s, doubled each time, up to 30 s.
    Growing {
        /// The pause after the next short run.
        pause: Duration,
    },
}

impl Backoff {
    pub(super) const GROWING: Backoff = Backoff::Growing { pause: FIRST_PAUSE };

    /// The pause after a run of `run_time`, which is `None` if the daemon could not be started.
    pub(super) fn next(&mut self, run_time: Option<Duration>) -> Duration {
        let Backoff::Growing { pause } = self else {
            return FIRST_PAUSE;
        };
        if run_time.is_some_and(|run_time| run_time >= HEALTHY_RUN_TIME) {
            *pause = FIRST_PAUSE;
            return Duration::ZERO;
        }
        let current = *pause;
        *pause = (current * 2).min(MAX_PAUSE);
        current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_pauses_grow_and_reset_after_a_long_run() {
        let mut backoff = Backoff::GROWING;
        let mut pauses = [
            None,
            Some(0),
            Some(1),
            Some(9),
            Some(2),
            None,
            Some(0),
            Some(11),
            Some(0),
        ]
        .map(|ran| backoff.next(ran.map(Duration::from_secs)).as_secs())
        .to_vec();
        assert_eq!(pauses.split_off(7), [0, 1]);
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn fixed_pause_does_not_change() {
        let mut backoff = Backoff::Fixed;
        for ran in [None, Some(Duration::from_secs(3600))] {
            assert_eq!(backoff.next(ran), FIRST_PAUSE);
        }
    }
}
