//! WASI with a fixed clock and fixed random numbers.

use std::time::Duration;

use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{HostWallClock, WasiCtxBuilder};

use crate::fixed_clock_and_random::Determinism;

/// Replaces random numbers and the time of day by fixed values.
pub(crate) fn make_deterministic(wasi: &mut WasiCtxBuilder, fixed: &Determinism) {
    wasi.secure_random(Deterministic::new(fixed.seed.to_vec()))
        .insecure_random(Deterministic::new(fixed.seed.to_vec()))
        .insecure_random_seed(insecure_seed(&fixed.seed))
        .wall_clock(FixedClock(fixed.time));
}

fn insecure_seed(bytes: &[u8; 32]) -> u128 {
    let (first_half, _) = bytes.split_at(16);
    first_half
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
