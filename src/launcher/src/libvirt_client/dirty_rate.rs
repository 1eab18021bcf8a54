//! Measures the dirty rate: how fast the guest writes to its memory.

use std::sync::Arc;
use std::time::Duration;

use libvirt::Domain;
use tokio::time::{Instant, sleep};

use super::call_class::STATISTICS;
use super::single_flight_cache::{CacheAge, SingleFlightCache};
use super::{CallError, Client};
use crate::blocking::NoAnswer;

/// How long the dirty rate is measured.
const MEASUREMENT_PERIOD: Duration = Duration::from_secs(1);
/// How long a measurement may take, including waiting for its start. virt-handler waits 5 s for GetVMStats.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(4);
/// The pause between two queries whether the measurement has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a result is cached: 3 s, as in KubeVirt's virt-launcher.
pub(super) const DIRTY_RATE_AGE: CacheAge = CacheAge {
    max: Duration::from_secs(3),
    refresh_after: Duration::from_secs(3),
};
/// `VIR_DOMAIN_DIRTYRATE_MEASURED` of `virDomainDirtyRateStatus`.
const STATUS_MEASURED: i32 = 2;

/// The dirty rate could not be measured.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum DirtyRateError {
    /// A call to libvirt failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The domain has no QEMU process.
    #[error("the domain does not run, so that no dirty rate can be measured")]
    Down,
    /// The measurement did not end in time.
    #[error("QEMU has not measured the dirty rate within {MEASUREMENT_TIMEOUT:?}")]
    Timeout,
}

impl From<NoAnswer> for DirtyRateError {
    fn from(error: NoAnswer) -> Self {
        DirtyRateError::Call(error.into())
    }
}

impl DirtyRateError {
    /// The text for a `Response`.
    pub(crate) fn message(&self) -> String {
        match self {
            DirtyRateError::Call(error) => error.message(),
            other => other.to_string(),
        }
    }
}

pub(super) type SharedDirtyRate = SingleFlightCache<i64, DirtyRateError>;

impl Client {
    /// How fast the guest writes to its memory, in MiB/s. Callers share a measurement for 3 s.
    pub(crate) async fn dirty_rate(&self) -> Result<i64, DirtyRateError> {
        let client = self.clone();
        let measure = async move { client.measure_dirty_rate().await };
        self.0.dirty_rate.get(measure).await
    }

    /// Returns the result of a measurement that begins after this call: the start of a measurement discards earlier
    /// results.
    async fn measure_dirty_rate(&self) -> Result<i64, DirtyRateError> {
        let deadline = Instant::now() + MEASUREMENT_TIMEOUT;
        let domain = self.require_domain().await?;
        while let Err(error) = self.start_measurement(&domain).await {
            // QEMU refuses while another measurement runs.
            if error.is_no_domain()
                || Instant::now() + MEASUREMENT_PERIOD + POLL_INTERVAL > deadline
            {
                return Err(error.into());
            }
            sleep(POLL_INTERVAL).await;
        }
        sleep(MEASUREMENT_PERIOD).await;
        while Instant::now() < deadline {
            let read = |domain: &dyn Domain| domain.dirty_rate();
            let rate = self
                .on(&domain, "reading the dirty rate", STATISTICS, read)
                .await?;
            let rate = rate.ok_or(DirtyRateError::Down)?;
            if rate.status == Some(STATUS_MEASURED)
                && let Some(mib_per_second) = rate.mib_per_second
            {
                return Ok(mib_per_second);
            }
            sleep(POLL_INTERVAL).await;
        }
        Err(DirtyRateError::Timeout)
    }

    async fn start_measurement(&self, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
        let start = |domain: &dyn Domain| domain.start_dirty_rate_calculation(MEASUREMENT_PERIOD);
        self.on(domain, "measuring the dirty rate", STATISTICS, start)
            .await
    }
}
