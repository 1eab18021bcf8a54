//! Limits how much of SeaBIOS' log per second goes into the launcher's log.

use std::time::{Duration, Instant};

/// SeaBIOS writes less in a whole boot.
const BYTES_PER_SECOND: usize = 256 * 1024;
/// What the launcher adds to a line.
const BYTES_AROUND: usize = 128;
const SECOND: Duration = Duration::from_secs(1);

/// Counts the bytes of each second. Pure.
#[derive(Debug, Default)]
pub(super) struct LogRateLimit {
    second: Option<Instant>,
    bytes: usize,
    is_exceeded: bool,
}

/// What to do with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineDecision {
    /// Log it.
    Log,
    /// Drop it, and log that lines are dropped until the second is over.
    DropFirst,
    /// Drop it.
    Drop,
}

impl LogRateLimit {
    /// A line of `length` bytes comes.
    pub(super) fn observe(&mut self, length: usize, now: Instant) -> LineDecision {
        let is_over = |begin: Instant| now.saturating_duration_since(begin) >= SECOND;
        if self.second.is_none_or(is_over) {
            *self = LogRateLimit {
                second: Some(now),
                ..LogRateLimit::default()
            };
        }
        self.bytes += length + BYTES_AROUND;
        match (
            self.bytes > BYTES_PER_SECOND,
            std::mem::replace(&mut self.is_exceeded, self.bytes > BYTES_PER_SECOND),
        ) {
            (false, _) => LineDecision::Log,
            (true, false) => LineDecision::DropFirst,
            (true, true) => LineDecision::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_dropped_and_reported_once_a_second() {
        let begin = Instant::now();
        let mut limit = LogRateLimit::default();
        for second in 0..3 {
            let now = begin + SECOND * second;
            let lines: Vec<_> = (0..10_000).map(|_| limit.observe(80, now)).collect();
            let count = |wanted| lines.iter().filter(|one| **one == wanted).count();
            assert_eq!(
                count(LineDecision::Log),
                BYTES_PER_SECOND / (80 + BYTES_AROUND)
            );
            assert_eq!(count(LineDecision::DropFirst), 1);
            assert_eq!(lines.last(), Some(&LineDecision::Drop));
        }
    }

    #[test]
    fn boot_is_logged_completely() {
        let now = Instant::now();
        let mut limit = LogRateLimit::default();
        assert!((0..1000).all(|_| limit.observe(80, now) == LineDecision::Log));
    }
}
