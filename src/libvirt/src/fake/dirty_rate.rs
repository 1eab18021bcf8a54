//! The calls about the dirty rate of a simulated domain.

use std::time::Duration;

use super::Call;
use super::domain_handle::FakeDomain;
use crate::dirty_rate::DirtyRate;
use crate::error::Result;
use crate::stats::DirtyRateStats;

/// `virDomainDirtyRateStatus`.
const MEASURING: i32 = 1;
const MEASURED: i32 = 2;

impl DirtyRate for FakeDomain {
    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()> {
        self.with_domain(Call::StartDirtyRate, |domain| {
            domain.must_run()?;
            let last = &mut domain.dirty_rate.last;
            *last = DirtyRateStats {
                status: Some(MEASURING),
                start: Some(last.start.unwrap_or(0) + 1),
                period: i32::try_from(period.as_secs()).ok(),
                mib_per_second: None,
            };
            Ok(())
        })
    }

    /// The first answer after the start is that the measurement goes on.
    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>> {
        self.with_domain(Call::DirtyRate, |domain| {
            let state = &mut domain.dirty_rate;
            let known = state.last;
            if known.status == Some(MEASURING) {
                state.last.status = Some(MEASURED);
                state.last.mib_per_second = Some(state.next_mib);
            }
            Ok(domain.active.is_some().then_some(known))
        })
    }
}
