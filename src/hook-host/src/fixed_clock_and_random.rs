//! A fixed clock and fixed random numbers, so that a run of a hook can be replayed.

use std::time::Duration;

/// Fixed values for the random numbers and the time of day that a guest reads. The monotonic clock is
/// not fixed, so a hook that measures its own run time cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Determinism {
    /// The random bytes, repeated endlessly.
    pub seed: [u8; 32],
    /// The time of day since 1970, which does not advance.
    pub time: Duration,
}
