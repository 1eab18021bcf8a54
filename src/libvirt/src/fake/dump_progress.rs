//! The progress of a memory dump.

use std::time::{Duration, Instant};

use crate::domain_jobs::{JobOperation, JobStats, JobType};
use crate::error::Error;

/// Bytes that the guest's memory and registers take in the file.
const SIZE: u64 = 64 << 20;

/// A memory dump under way.
pub(super) struct RunningDump {
    pub(super) started: Instant,
    pub(super) lasts: Duration,
    /// Whether the guest was running and is to be resumed.
    pub(super) resume: bool,
    /// The error that ends it early.
    pub(super) failure: Option<Error>,
}

impl RunningDump {
    pub(super) fn share(&self) -> f64 {
        if self.lasts.is_zero() {
            return 1.0;
        }
        (self.started.elapsed().as_secs_f64() / self.lasts.as_secs_f64()).min(1.0)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a size"
    )]
    pub(super) fn stats(&self) -> JobStats {
        let processed = (SIZE as f64 * self.share()) as u64;
        JobStats {
            job_type: JobType::Unbounded,
            operation: JobOperation::Dump,
            time_elapsed: u64::try_from(self.started.elapsed().as_millis()).ok(),
            memory_total: Some(SIZE),
            memory_processed: Some(processed),
            memory_remaining: Some(SIZE - processed),
            ..JobStats::default()
        }
    }
}
