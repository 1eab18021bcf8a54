//! The progress of a backup.

use std::time::{Duration, Instant};

use crate::domain_jobs::{JobOperation, JobStats, JobType};

/// Bytes that are backed up.
const SIZE: u64 = 64 << 20;

/// A backup under way.
pub(super) struct RunningBackup {
    /// Distinguishes this backup from a later one.
    pub(super) number: u32,
    pub(super) started: Instant,
    /// How long it takes in push mode; in pull mode it lasts until it is aborted.
    pub(super) lasts: Option<Duration>,
}

impl RunningBackup {
    pub(super) fn stats(&self) -> JobStats {
        let elapsed = self.started.elapsed();
        let processed = match self.lasts {
            Some(lasts) if elapsed < lasts => SIZE / 2,
            Some(_) => SIZE,
            None => 0,
        };
        JobStats {
            job_type: JobType::Unbounded,
            operation: JobOperation::Backup,
            time_elapsed: u64::try_from(elapsed.as_millis()).ok(),
            data_total: Some(SIZE),
            data_processed: Some(processed),
            ..JobStats::default()
        }
    }
}
