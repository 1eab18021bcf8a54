//! The time budget of the hooks of OnAttachDevice for one request.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Limits;

/// The time budget of hooks for all devices that one request attaches.
#[derive(Debug)]
pub struct AttachTime {
    limit: Duration,
    /// When the hooks must end, because the request needs the rest of its time for other work.
    end: Option<Instant>,
    spent: Mutex<Duration>,
}

impl Default for AttachTime {
    fn default() -> Self {
        Self::new(Limits::default().attach_deadline)
    }
}

impl AttachTime {
    /// A budget of `limit` for one request.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            end: None,
            spent: Mutex::default(),
        }
    }

    /// The same budget, which also ends at `end`. `limit` counts only the hooks' time; `end` also counts the request's
    /// other work. Errors name `limit`, so it is lowered to the time until `end`.
    #[must_use]
    pub fn until(self, end: Instant) -> Self {
        let until_end = end.saturating_duration_since(Instant::now());
        Self {
            limit: self.limit.min(until_end),
            end: Some(end),
            ..self
        }
    }

    /// The remaining time.
    #[must_use]
    pub fn left(&self) -> Duration {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let until_end = self.end.map_or(Duration::MAX, |end| {
            end.saturating_duration_since(Instant::now())
        });
        self.limit.saturating_sub(spent).min(until_end)
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn spend(&self, time: Duration) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }
}
