//! The end of a call, which waiting for a fact defers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The end of a call, which waiting for a fact defers.
#[derive(Clone)]
pub(crate) struct CallClock {
    ends: Arc<Mutex<Ends>>,
}

struct Ends {
    call: Instant,
    /// The end of all calls of the hook point; waiting does not defer it.
    chain: Option<Instant>,
}

impl CallClock {
    pub(crate) fn new(call: Instant, chain: Option<Instant>) -> Self {
        let ends = Ends { call, chain };
        Self {
            ends: Arc::new(Mutex::new(ends)),
        }
    }

    /// When the call has to end.
    pub(crate) fn end(&self) -> Instant {
        self.locked().call
    }

    /// Defers the end of the call by at most `most`, as far as the chain's deadline permits. Returns by how much.
    pub(super) fn defer(&self, most: Duration) -> Duration {
        let mut ends = self.locked();
        let left = |chain: Instant| chain.saturating_duration_since(ends.call);
        let by = ends.chain.map_or(most, |chain| most.min(left(chain)));
        ends.call += by;
        by
    }

    /// Takes back what was not needed of the last [`Self::defer`].
    pub(super) fn advance(&self, by: Duration) {
        let mut ends = self.locked();
        ends.call = ends.call.checked_sub(by).unwrap_or(ends.call);
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
