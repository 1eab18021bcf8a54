//! A running memory dump and its progress.

use std::time::{Duration, Instant};

use crate::domain_jobs::{JobOperation, JobStats, JobType};
use crate::error::Error;

/// The size of the dump in bytes.
const TOTAL_BYTES: u64 = 64 << 20;

/// A running memory dump.
pub(super) struct RunningDump {
    pub(super) started: Instant,
    pub(super) duration: Duration,
    /// Whether the guest was running, and is resumed at the end.
    pub(super) resumes_guest: bool,
    /// The error with which the dump ends early.
    pub(super) failure: Option<Error>,
}

impl RunningDump {
    /// The share of the dump that is written, from 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        if self.duration.is_zero() {
            return 1.0;
        }
        (self.started.elapsed().as_secs_f64() / self.duration.as_secs_f64()).min(1.0)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a size"
    )]
    pub(super) fn stats(&self) -> JobStats {
        let processed = (TOTAL_BYTES as f64 * self.progress()) as u64;
        JobStats {
            job_type: JobType::Unbounded,
            operation: JobOperation::Dump,
            time_elapsed: u64::try_from(self.started.elapsed().as_millis()).ok(),
            memory_total: Some(TOTAL_BYTES),
            memory_processed: Some(processed),
            memory_remaining: Some(TOTAL_BYTES - processed),
            ..JobStats::default()
        }
    }
}
