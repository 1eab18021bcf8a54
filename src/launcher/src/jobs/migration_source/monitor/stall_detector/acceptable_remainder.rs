//! The remainder at which a stalled migration is completed, and how it changes while the stall lasts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Iteration, scaled};

/// The remainder that is small enough to complete a stalled migration.
#[derive(Debug)]
pub(super) struct AcceptableRemainder {
    bytes: u64,
    /// Remainders of iterations since the stall was recognized, without those that became acceptable; the smallest
    /// first.
    remainders: BinaryHeap<Reverse<u64>>,
    /// How long to wait for an acceptable remainder, in milliseconds.
    patience_ms: u64,
    /// When the patience is over, in milliseconds since the beginning of the migration.
    patience_end_ms: u64,
}

impl AcceptableRemainder {
    /// The acceptable remainder of a stall that was recognized at the beginning of `iteration`.
    pub(super) fn new(bytes: u64, iteration: Iteration, patience_ms: u64) -> AcceptableRemainder {
        AcceptableRemainder {
            bytes,
            remainders: BinaryHeap::new(),
            patience_ms,
            patience_end_ms: iteration.elapsed_ms.saturating_add(patience_ms),
        }
    }

    /// The acceptable remainder in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an iteration. When the patience is over, the smallest remainder in the heap becomes the acceptable one, and
    /// the patience is multiplied by `patience_decay`. The new remainder is normally larger than the one before, since
    /// an iteration with a smaller remainder completes the migration.
    pub(super) fn add_iteration(&mut self, iteration: Iteration, patience_decay: f64) {
        self.remainders.push(Reverse(iteration.remaining));
        if iteration.elapsed_ms < self.patience_end_ms {
            return;
        }
        if let Some(Reverse(next)) = self.remainders.pop() {
            self.bytes = next;
            self.patience_ms = scaled(self.patience_ms, patience_decay);
            self.patience_end_ms = iteration.elapsed_ms.saturating_add(self.patience_ms);
        }
    }
}
