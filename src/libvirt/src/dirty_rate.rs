//! The dirty rate of a running domain: how fast the guest writes to its memory.

use std::time::Duration;

use crate::error::Result;
use crate::stats::DirtyRateStats;

/// Measurements of the dirty rate.
pub trait DirtyRate {
    /// Starts a measurement that samples pages, and returns at once. From then on [`DirtyRate::dirty_rate`] returns
    /// this measurement and no earlier one. `period` is cut to whole seconds, at least one.
    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()>;

    /// The last measurement; `None` when the domain has no QEMU process.
    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>>;
}
