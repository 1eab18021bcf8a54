//! The deadline of a call, which is deferred while the call waits for a fact.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The deadline of a call, which is deferred while the call waits for a fact.
#[derive(Clone)]
pub(crate) struct CallDeadline {
    deadlines: Arc<Mutex<Deadlines>>,
}

struct Deadlines {
    call: Instant,
    /// The deadline of all calls of the hook point, which is never deferred.
    chain: Option<Instant>,
}

impl CallDeadline {
    pub(crate) fn new(call: Instant, chain: Option<Instant>) -> Self {
        let deadlines = Deadlines { call, chain };
        Self {
            deadlines: Arc::new(Mutex::new(deadlines)),
        }
    }

    /// The deadline of the call.
    pub(crate) fn end(&self) -> Instant {
        self.lock().call
    }

    /// Defers the deadline by at most `max`, and not beyond the chain's deadline. Returns the time by which it was
    /// deferred.
    pub(super) fn defer(&self, max: Duration) -> Duration {
        let mut deadlines = self.lock();
        let remaining = |chain: Instant| chain.saturating_duration_since(deadlines.call);
        let by = deadlines
            .chain
            .map_or(max, |chain| max.min(remaining(chain)));
        deadlines.call += by;
        by
    }

    /// Moves the deadline back by the part of the last [`Self::defer`] that was not needed.
    pub(super) fn advance(&self, by: Duration) {
        let mut deadlines = self.lock();
        deadlines.call = deadlines.call.checked_sub(by).unwrap_or(deadlines.call);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Deadlines> {
        self.deadlines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
