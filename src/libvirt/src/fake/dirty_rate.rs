//! Measurements of a simulated domain's dirty rate.

use std::time::Duration;

use super::Call;
use super::domain_handle::FakeDomain;
use crate::dirty_rate::DirtyRate;
use crate::error::Result;
use crate::stats::DirtyRateStats;

impl DirtyRate for FakeDomain {
    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()> {
        self.with_domain(Call::StartDirtyRate, |domain| {
            domain.must_run()?;
            let last = &mut domain.dirty_rate.last;
            *last = DirtyRateStats {
                status: Some(DirtyRateStats::MEASURING),
                start: Some(last.start.unwrap_or(0) + 1),
                period: i32::try_from(period.as_secs()).ok(),
                mib_per_second: None,
            };
            Ok(())
        })
    }

    /// The first call after the start returns that the measurement is running, the next one its result.
    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>> {
        self.with_domain(Call::DirtyRate, |domain| {
            let state = &mut domain.dirty_rate;
            let reported = state.last;
            if reported.status == Some(DirtyRateStats::MEASURING) {
                state.last.status = Some(DirtyRateStats::MEASURED);
                state.last.mib_per_second = Some(state.next_mib);
            }
            Ok(domain.active.is_some().then_some(reported))
        })
    }
}
