//! The state of a simulated domain's dirty rate measurements.

use crate::stats::DirtyRateStats;

/// The last measurement, and the result of the next one.
#[derive(Default)]
pub(super) struct DirtyRateState {
    pub(super) last: DirtyRateStats,
    /// The result of the next measurement, in MiB/s.
    pub(super) next_mib: i64,
}
