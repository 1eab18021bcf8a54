//! Fixed random numbers and time, so that a run can be replayed.

use std::time::Duration;

/// Fixed values for everything a guest can read that differs between runs. The monotonic clock is
/// not fixed: a hook that measures its own run time cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Determinism {
    /// The random bytes, repeated endlessly.
    pub seed: [u8; 32],
    /// The time of day since 1970. It does not advance.
    pub time: Duration,
}
