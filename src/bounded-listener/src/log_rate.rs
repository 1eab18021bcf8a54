//! How often a line is logged that clients can cause.

use std::time::Instant;

use crate::limits::LOG_INTERVAL;

/// When the line was logged last.
#[derive(Debug, Default)]
pub(crate) struct LogRate(Option<Instant>);

impl LogRate {
    /// Whether the line is to be logged now: once in [`LOG_INTERVAL`].
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|at| now >= at + LOG_INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_logged_once_in_the_interval() {
        let (mut rate, begin) = (LogRate::default(), Instant::now());
        assert!(rate.admit(begin));
        assert!(!rate.admit(begin + LOG_INTERVAL / 2));
        assert!(rate.admit(begin + LOG_INTERVAL));
        assert!(!rate.admit(begin + LOG_INTERVAL * 3 / 2));
    }
}
