//! A running backup and its progress.

use std::time::{Duration, Instant};

use crate::domain_jobs::{JobOperation, JobStats, JobType};

/// The size of the backup in bytes.
const TOTAL_BYTES: u64 = 64 << 20;

/// A running backup.
pub(super) struct RunningBackup {
    /// Distinguishes this backup from a later one.
    pub(super) number: u32,
    pub(super) started: Instant,
    /// How long the backup takes in push mode; `None` in pull mode, where it runs until it is aborted.
    pub(super) duration: Option<Duration>,
}

impl RunningBackup {
    pub(super) fn stats(&self) -> JobStats {
        let elapsed = self.started.elapsed();
        let processed = match self.duration {
            Some(duration) if elapsed < duration => TOTAL_BYTES / 2,
            Some(_) => TOTAL_BYTES,
            None => 0,
        };
        JobStats {
            job_type: JobType::Unbounded,
            operation: JobOperation::Backup,
            time_elapsed: u64::try_from(elapsed.as_millis()).ok(),
            data_total: Some(TOTAL_BYTES),
            data_processed: Some(processed),
            ..JobStats::default()
        }
    }
}
