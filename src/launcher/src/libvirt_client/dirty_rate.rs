//! The dirty rate: how fast the guest writes to its memory.

use std::sync::Arc;
use std::time::Duration;

use libvirt::Domain;
use tokio::time::{Instant, sleep};

use super::call_class::STATISTICS;
use super::single_flight_cache::{CacheAge, SingleFlightCache};
use super::{CallError, Client};
use crate::blocking::NoAnswer;

/// How long the dirty rate is measured.
const PERIOD: Duration = Duration::from_secs(1);
/// How long it takes at most: virt-handler waits 5 s for GetVMStats.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(4);
/// Between two looks whether the measurement has ended.
const PAUSE: Duration = Duration::from_millis(50);
/// KubeVirt's virt-launcher keeps a dirty rate for 3 s, too.
pub(super) const DIRTY_RATE_AGE: CacheAge = CacheAge {
    max: Duration::from_secs(3),
    refresh_after: Duration::from_secs(3),
};
/// `virDomainDirtyRateStatus`.
const MEASURED: i32 = 2;

/// The dirty rate was not measured.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum DirtyRateError {
    /// libvirt refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is no QEMU process.
    #[error("the domain does not run, so that no dirty rate can be measured")]
    Down,
    /// The measurement did not end.
    #[error("QEMU has not measured the dirty rate within {MEASUREMENT_TIMEOUT:?}")]
    Late,
}

impl From<NoAnswer> for DirtyRateError {
    fn from(error: NoAnswer) -> Self {
        DirtyRateError::Call(error.into())
    }
}

impl DirtyRateError {
    /// The text of a `Response`.
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

    /// The answer is that of a measurement which begins after this call: its start discards the result of any other.
    async fn measure_dirty_rate(&self) -> Result<i64, DirtyRateError> {
        let give_up = Instant::now() + MEASUREMENT_TIMEOUT;
        let domain = self.require_domain().await?;
        while let Err(error) = self.start_measurement(&domain).await {
            // QEMU refuses while another measurement runs.
            if error.is_no_domain() || Instant::now() + PERIOD + PAUSE > give_up {
                return Err(error.into());
            }
            sleep(PAUSE).await;
        }
        sleep(PERIOD).await;
        while Instant::now() < give_up {
            let read = |domain: &dyn Domain| domain.dirty_rate();
            let rate = self
                .on(&domain, "reading the dirty rate", STATISTICS, read)
                .await?;
            let rate = rate.ok_or(DirtyRateError::Down)?;
            if rate.status == Some(MEASURED)
                && let Some(mib_per_second) = rate.mib_per_second
            {
                return Ok(mib_per_second);
            }
            sleep(PAUSE).await;
        }
        Err(DirtyRateError::Late)
    }

    async fn start_measurement(&self, domain: &Arc<dyn Domain>) -> Result<(), CallError> {
        let start = |domain: &dyn Domain| domain.start_dirty_rate_calculation(PERIOD);
        self.on(domain, "measuring the dirty rate", STATISTICS, start)
            .await
    }
}
