//! The screen, dirty rate and launch security of a simulated domain.

use crate::launch_security::{LaunchSecret, LaunchSecurityInfo};
use crate::screenshot_and_dirty_rate::Screenshot;
use crate::stats::DirtyRateStats;

/// What a test gives a domain for these roles, and what it received.
#[derive(Default)]
pub(super) struct MonitoringState {
    pub(super) screenshot: Option<Screenshot>,
    pub(super) dirty_rate: DirtyRateStats,
    /// The result of the next measurement, in MiB/s.
    pub(super) measures: i64,
    pub(super) launch_security: Option<LaunchSecurityInfo>,
    pub(super) launch_secret: Option<LaunchSecret>,
}
