//! The screenshot of a running domain, and its dirty rate: how fast the guest writes to its memory.

use std::time::Duration;

use crate::error::Result;
use crate::stats::DirtyRateStats;

/// A picture of a domain's screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screenshot {
    /// The media type, e.g. `image/png`.
    pub mime: String,
    /// The picture.
    pub data: Vec<u8>,
}

/// Observations of a running domain.
pub trait ScreenshotAndDirtyRate {
    /// A picture of the first screen; one of more than `limit` bytes is an error. Works while the domain is paused.
    fn screenshot(&self, limit: usize) -> Result<Screenshot>;

    /// Starts to measure, by sampling pages, how fast the guest writes to its memory. Returns at once; from then on
    /// [`ScreenshotAndDirtyRate::dirty_rate`] no longer describes an earlier measurement. `period` is in whole seconds, at least
    /// one.
    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()>;

    /// The last measurement; `None` when the domain has no QEMU process.
    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>>;
}
