//! The remainders of a migration within a time window, to recognize a stall.

use std::collections::VecDeque;

use super::{Iteration, scaled};

/// The smallest remainders at the beginning of iterations, inside the window and before it.
#[derive(Debug)]
pub(super) struct RemainderWindow {
    /// The length of the window in milliseconds.
    window_ms: u64,
    /// IterationEvents inside the window, each with a smaller remainder than the one before.
    recent: VecDeque<Iteration>,
    /// The iteration with the smallest remainder before the window.
    earlier: Option<Iteration>,
}

impl RemainderWindow {
    /// An empty window of this length.
    pub(super) fn new(window_ms: u64) -> RemainderWindow {
        RemainderWindow {
            window_ms,
            recent: VecDeque::new(),
            earlier: None,
        }
    }

    /// The length of the window in milliseconds.
    pub(super) fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// Moves the window to this iteration, and adds the iteration.
    pub(super) fn observe(&mut self, iteration: Iteration) {
        while let Some(oldest) = self.recent.front().copied() {
            if iteration.elapsed_ms.saturating_sub(oldest.elapsed_ms) < self.window_ms {
                break;
            }
            self.recent.pop_front();
            let known = self.earlier.map(|earlier| earlier.remaining);
            if known.is_none_or(|known| oldest.remaining < known) {
                self.earlier = Some(oldest);
            }
        }
        // A larger remainder than an earlier one is never the smallest, so it is not stored.
        let before = self.recent.back().map(|last| last.remaining);
        let is_above = self
            .earlier
            .is_some_and(|earlier| iteration.remaining > earlier.remaining);
        if !is_above && before.is_none_or(|before| iteration.remaining < before) {
            self.recent.push_back(iteration);
        }
    }

    /// Whether the remainder is not smaller than the smallest before the window by this fraction of it.
    pub(super) fn is_stalled(&self, remaining: u64, margin: f64) -> bool {
        self.earlier
            .is_some_and(|earlier| remaining >= scaled(earlier.remaining, 1.0 - margin))
    }

    /// The smallest remainder, inside the window or before it.
    pub(super) fn smallest(&self) -> Option<u64> {
        let iterations = self.recent.iter().chain(&self.earlier);
        iterations.map(|iteration| iteration.remaining).min()
    }
}
