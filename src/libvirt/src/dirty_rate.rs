//! The dirty rate of a running domain: how fast the guest writes to its memory.

use std::time::Duration;

use crate::error::Result;
use crate::stats::DirtyRateStats;

/// Measurements of the dirty rate.
pub trait DirtyRate {
    /// Starts to measure, by sampling pages, how fast the guest writes to its memory. Returns at once; from then on
    /// [`DirtyRate::dirty_rate`] no longer describes an earlier measurement. `period` is in whole seconds, at least one.
    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()>;

    /// The last measurement; `None` when the domain has no QEMU process.
    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>>;
}
