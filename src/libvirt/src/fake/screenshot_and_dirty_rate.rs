//! A simulated domain's screen, dirty rate and launch security.

use std::time::Duration;

use super::Call;
use super::domain_handle::FakeDomain;
use crate::error::{Error, Result, code, origin};
use crate::launch_security::{LaunchSecret, LaunchSecurity, LaunchSecurityInfo};
use crate::screenshot_and_dirty_rate::{Monitoring, Screenshot};
use crate::stats::DirtyRateStats;

/// `virDomainDirtyRateStatus`.
const MEASURING: i32 = 1;
const MEASURED: i32 = 2;

impl Monitoring for FakeDomain {
    fn screenshot(&self, limit: usize) -> Result<Screenshot> {
        self.with_domain(Call::Screenshot, |domain| {
            domain.must_run()?;
            let screenshot = domain.monitoring.screenshot.clone();
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
            let start = domain.monitoring.dirty_rate.start.unwrap_or(0) + 1;
            domain.monitoring.dirty_rate = DirtyRateStats {
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
            let state = &mut domain.monitoring;
            let known = state.dirty_rate;
            if known.status == Some(MEASURING) {
                state.dirty_rate.status = Some(MEASURED);
                state.dirty_rate.mib_per_second = Some(state.measures);
            }
            Ok(domain.active.is_some().then_some(known))
        })
    }
}

impl LaunchSecurity for FakeDomain {
    fn launch_security_info(&self) -> Result<LaunchSecurityInfo> {
        self.with_domain(Call::LaunchSecurity, |domain| {
            domain.must_run()?;
            let info = domain.monitoring.launch_security.clone();
            // libvirt reports nothing of a domain without launch security, and no error.
            Ok(info.unwrap_or_default())
        })
    }

    fn set_launch_secret(&self, secret: &LaunchSecret) -> Result<()> {
        self.with_domain(Call::LaunchSecurity, |domain| {
            domain.must_run()?;
            if domain.monitoring.launch_security.is_none() {
                let message = "Operation not supported: launch security type is not SEV";
                return Err(error(code::OPERATION_UNSUPPORTED, message));
            }
            domain.monitoring.launch_secret = Some(secret.clone());
            Ok(())
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
