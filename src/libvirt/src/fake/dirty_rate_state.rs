//! The dirty rate of a simulated domain.

use crate::stats::DirtyRateStats;

/// The measurements of a simulated domain.
#[derive(Default)]
pub(super) struct DirtyRateState {
    pub(super) last: DirtyRateStats,
    /// The result of the next measurement, in MiB/s.
    pub(super) next_mib: i64,
}
