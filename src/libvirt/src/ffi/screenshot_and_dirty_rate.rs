//! Looking at a running domain.

use std::ffi::c_int;
use std::time::Duration;

use virt_sys as sys;

use super::call::{check, take_string};
use super::domain_handle::RealDomain;
use super::domain_stats;
use super::stream::Stream;
use crate::error::Result;
use crate::screenshot_and_dirty_rate::{Screenshot, ScreenshotAndDirtyRate};
use crate::stats::DirtyRateStats;

impl ScreenshotAndDirtyRate for RealDomain {
    fn screenshot(&self, limit: usize) -> Result<Screenshot> {
        let stream = Stream::new(self.connection())?;
        // SAFETY: domain and stream are valid and of one connection; the media type is the caller's.
        let mime = unsafe {
            take_string(sys::virDomainScreenshot(
                self.as_ptr(),
                stream.as_ptr(),
                0,
                0,
            ))
        }?;
        let data = stream.read(limit)?;
        Ok(Screenshot { mime, data })
    }

    fn start_dirty_rate_calculation(&self, period: Duration) -> Result<()> {
        let seconds = c_int::try_from(period.as_secs().max(1)).unwrap_or(c_int::MAX);
        let flags = sys::VIR_DOMAIN_DIRTYRATE_MODE_PAGE_SAMPLING;
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainStartDirtyRateCalc(self.as_ptr(), seconds, flags) }).map(drop)
    }

    fn dirty_rate(&self) -> Result<Option<DirtyRateStats>> {
        domain_stats::read_dirty_rate(self)
    }
}
