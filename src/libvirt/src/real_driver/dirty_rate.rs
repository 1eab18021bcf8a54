//! The dirty rate of a domain.

use std::ffi::c_int;
use std::time::Duration;

use virt_sys as sys;

use super::c_strings_and_errors::check;
use super::domain_handle::RealDomain;
use super::domain_stats;
use crate::dirty_rate::DirtyRate;
use crate::error::Result;
use crate::stats::DirtyRateStats;

impl DirtyRate for RealDomain {
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
