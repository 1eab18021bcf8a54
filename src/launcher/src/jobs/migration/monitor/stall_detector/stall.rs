//! A recognized stall: the remainder at which the migration is completed, and how that is relaxed over time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Iteration, scaled};

/// A stall since it was recognized.
#[derive(Debug)]
pub(super) struct Stall {
    /// A remainder that is small enough to complete the migration.
    acceptable: u64,
    /// The remainders since the stall was recognized, the smallest first.
    remainders: BinaryHeap<Reverse<u64>>,
    /// How long to wait for an acceptable remainder, in milliseconds.
    patience_ms: u64,
    /// When the acceptable remainder is relaxed next.
    relax_at_ms: u64,
}

impl Stall {
    /// A stall that was recognized at the beginning of `iteration`.
    pub(super) fn new(acceptable: u64, iteration: Iteration, patience_ms: u64) -> Stall {
        Stall {
            acceptable,
            remainders: BinaryHeap::new(),
            patience_ms,
            relax_at_ms: iteration.elapsed_ms.saturating_add(patience_ms),
        }
    }

    /// A remainder that is small enough to complete the migration.
    pub(super) fn acceptable(&self) -> u64 {
        self.acceptable
    }

    /// Adds an iteration. When the patience is over, the smallest remainder that was not acceptable before becomes
    /// acceptable, and the patience shrinks by the factor `decay`.
    pub(super) fn relax(&mut self, iteration: Iteration, decay: f64) {
        self.remainders.push(Reverse(iteration.remaining));
        if iteration.elapsed_ms < self.relax_at_ms {
            return;
        }
        if let Some(Reverse(next)) = self.remainders.pop() {
            self.acceptable = next;
            self.patience_ms = scaled(self.patience_ms, decay);
            self.relax_at_ms = iteration.elapsed_ms.saturating_add(self.patience_ms);
        }
    }
}
