//! The pause before a daemon is restarted. Pure.

use std::time::Duration;

/// A daemon that ran this long was healthy.
const HEALTHY: Duration = Duration::from_secs(10);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(30);
/// KubeVirt's pause: a daemon that crashes at once must not take a processor for itself.
const CRASHING: Duration = Duration::from_secs(1);

/// The pauses of one daemon.
#[derive(Debug, Clone, Copy)]
pub(super) enum Backoff {
    /// Always 1 s, as in KubeVirt.
    Fixed,
    /// None after a healthy life, else 1 s and doubled each time, up to 30 s.
    Growing {
        /// The next pause after a short life.
        pause: Duration,
    },
}

impl Backoff {
    pub(super) const GROWING: Backoff = Backoff::Growing { pause: CRASHING };

    /// The pause after a life of `ran`; `None` when the daemon could not be started.
    pub(super) fn next(&mut self, ran: Option<Duration>) -> Duration {
        let Backoff::Growing { pause } = self else {
            return CRASHING;
        };
        if ran.is_some_and(|ran| ran >= HEALTHY) {
            *pause = CRASHING;
            return Duration::ZERO;
        }
        let now = *pause;
        *pause = (now * 2).min(LONGEST);
        now
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
            assert_eq!(backoff.next(ran), CRASHING);
        }
    }
}
