//! A simulated domain's screenshot and dirty rate.

use std::time::Duration;

use super::Call;
use super::domain_handle::FakeDomain;
use crate::error::{Error, Result, code, origin};
use crate::screenshot_and_dirty_rate::{Screenshot, ScreenshotAndDirtyRate};
use crate::stats::DirtyRateStats;

/// `virDomainDirtyRateStatus`.
const MEASURING: i32 = 1;
const MEASURED: i32 = 2;

impl ScreenshotAndDirtyRate for FakeDomain {
    fn screenshot(&self, limit: usize) -> Result<Screenshot> {
        self.with_domain(Call::Screenshot, |domain| {
            domain.must_run()?;
            let screenshot = domain.screenshot_and_dirty_rate.screenshot.clone();
            let screenshot = screenshot.ok_or_else(|| {
                error(
                    code::INTERNAL_ERROR,
                    "internal error: no screen to take a screenshot of",
                )
            })?;
            if screenshot.data.len() > limit {
                let message = format!("operation failed: more than {limit} bytes were sent");
                return Err(error(code::OPERATION_FAILED, &message));
            }
            Ok(screenshot)
        })
    }

    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()> {
        self.with_domain(Call::StartDirtyRate, |domain| {
            domain.must_run()?;
            let start = domain
                .screenshot_and_dirty_rate
                .dirty_rate
                .start
                .unwrap_or(0)
                + 1;
            domain.screenshot_and_dirty_rate.dirty_rate = DirtyRateStats {
                status: Some(MEASURING),
                start: Some(start),
                period: i32::try_from(period.as_secs()).ok(),
                mib_per_second: None,
            };
            Ok(())
        })
    }

    /// The first answer after the start is that the measurement goes on.
    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>> {
        self.with_domain(Call::DirtyRate, |domain| {
            let state = &mut domain.screenshot_and_dirty_rate;
            let known = state.dirty_rate;
            if known.status == Some(MEASURING) {
                state.dirty_rate.status = Some(MEASURED);
                state.dirty_rate.mib_per_second = Some(state.next_dirty_rate_mib);
            }
            Ok(domain.active.is_some().then_some(known))
        })
    }
}

fn error(code: i32, message: &str) -> Error {
    Error {
        code,
        domain: origin::QEMU,
        message: message.to_owned(),
    }
}
