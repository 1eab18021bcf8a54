//! Limits how much of SeaBIOS' log the launcher logs per second.

use std::time::{Duration, Instant};

/// Maximum number of bytes per second. SeaBIOS writes less in a whole boot.
const MAX_BYTES_PER_SECOND: usize = 256 * 1024;
/// How many bytes the launcher adds to a line.
const OVERHEAD_BYTES_PER_LINE: usize = 128;
const WINDOW: Duration = Duration::from_secs(1);

/// Counts the bytes of the log per second. Pure.
#[derive(Debug, Default)]
pub(super) struct LogRateLimit {
    /// The start of the current second.
    window_start: Option<Instant>,
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
    /// Decides on a line of `length` bytes.
    pub(super) fn observe(&mut self, length: usize, now: Instant) -> LineDecision {
        let is_over = |begin: Instant| now.saturating_duration_since(begin) >= WINDOW;
        if self.window_start.is_none_or(is_over) {
            *self = LogRateLimit {
                window_start: Some(now),
                ..LogRateLimit::default()
            };
        }
        self.bytes += length + OVERHEAD_BYTES_PER_LINE;
        match (
            self.bytes > MAX_BYTES_PER_SECOND,
            std::mem::replace(&mut self.is_exceeded, self.bytes > MAX_BYTES_PER_SECOND),
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
            let now = begin + WINDOW * second;
            let lines: Vec<_> = (0..10_000).map(|_| limit.observe(80, now)).collect();
            let count = |wanted| lines.iter().filter(|decision| **decision == wanted).count();
            assert_eq!(
                count(LineDecision::Log),
                MAX_BYTES_PER_SECOND / (80 + OVERHEAD_BYTES_PER_LINE)
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
