//! The screenshot and dirty rate of a simulated domain.

use crate::screenshot_and_dirty_rate::Screenshot;
use crate::stats::DirtyRateStats;

/// What a test gives a domain.
#[derive(Default)]
pub(super) struct ScreenshotAndDirtyRateState {
    pub(super) screenshot: Option<Screenshot>,
    pub(super) dirty_rate: DirtyRateStats,
    /// The result of the next measurement, in MiB/s.
    pub(super) next_dirty_rate_mib: i64,
}
