//! Fixed random numbers and time, so that a run can be replayed.

use std::time::Duration;

use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{HostWallClock, WasiCtxBuilder};

/// Fixed values for everything a guest can read that differs between runs. The monotonic clock is
/// not fixed: a hook that measures its own run time cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Determinism {
    /// The random bytes, repeated endlessly.
    pub seed: [u8; 32],
    /// The time of day since 1970. It does not advance.
    pub time: Duration,
}

/// Replaces random numbers and the time of day by fixed values.
pub(crate) fn make_deterministic(wasi: &mut WasiCtxBuilder, fixed: &Determinism) {
    wasi.secure_random(Deterministic::new(fixed.seed.to_vec()))
        .insecure_random(Deterministic::new(fixed.seed.to_vec()))
        .insecure_random_seed(seed(&fixed.seed))
        .wall_clock(FixedClock(fixed.time));
}

fn seed(bytes: &[u8; 32]) -> u128 {
    let (first, _) = bytes.split_at(16);
    first
        .iter()
        .fold(0, |seed, byte| seed << 8 | u128::from(*byte))
}

/// A wall clock that does not advance.
struct FixedClock(Duration);

impl HostWallClock for FixedClock {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}
