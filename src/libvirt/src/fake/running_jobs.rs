//! A running memory dump and its progress.

use std::time::{Duration, Instant};

use super::errors::{operation_invalid, qemu_error};
use crate::domain_jobs::{JobOperation, JobStats, JobType, MigrationFlags, MigrationRequest};
use crate::error::{Error, Result, code};

/// The size of the dump in bytes.
const DUMP_BYTES: u64 = 64 << 20;

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
        let processed = (DUMP_BYTES as f64 * self.progress()) as u64;
        JobStats {
            job_type: JobType::Unbounded,
            operation: JobOperation::Dump,
            time_elapsed: u64::try_from(self.started.elapsed().as_millis()).ok(),
            memory_total: Some(DUMP_BYTES),
            memory_processed: Some(processed),
            memory_remaining: Some(DUMP_BYTES - processed),
            ..JobStats::default()
        }
    }
}

/// The size of the backup in bytes.
const BACKUP_BYTES: u64 = 64 << 20;

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
            Some(duration) if elapsed < duration => BACKUP_BYTES / 2,
            Some(_) => BACKUP_BYTES,
            None => 0,
        };
        JobStats {
            job_type: JobType::Unbounded,
            operation: JobOperation::Backup,
            time_elapsed: u64::try_from(elapsed.as_millis()).ok(),
            data_total: Some(BACKUP_BYTES),
            data_processed: Some(processed),
            ..JobStats::default()
        }
    }
}

/// The size of the guest's memory in bytes.
const MEMORY_BYTES: u64 = 256 << 20;
/// The longest downtime that QEMU accepts, in milliseconds.
const MAX_DOWNTIME_MS: u64 = 2_000_000;
/// A migration that never converges completes with a downtime above this one, in milliseconds.
const CONVERGING_DOWNTIME_MS: u64 = 60_000;

/// A running migration.
pub(super) struct RunningMigration {
    pub(super) started: Instant,
    pub(super) plan: MigrationPlan,
    /// Whether the guest was running, and is resumed after a failure.
    pub(super) resumes_guest: bool,
    /// The error with which the migration ends early.
    pub(super) failure: Option<Error>,
    pub(super) is_post_copy: bool,
    flags: MigrationFlags,
    is_aborted: bool,
    /// Since when the guest's writes no longer keep the migration from converging.
    converges_since: Option<Instant>,
}

impl RunningMigration {
    pub(super) fn new(
        plan: MigrationPlan,
        flags: MigrationFlags,
        resumes_guest: bool,
        failure: Option<Error>,
    ) -> Self {
        RunningMigration {
            started: Instant::now(),
            plan,
            resumes_guest,
            failure,
            is_post_copy: false,
            flags,
            is_aborted: false,
            converges_since: None,
        }
    }

    /// Lets the migration converge, since the guest no longer writes.
    pub(super) fn let_converge(&mut self) {
        self.converges_since.get_or_insert_with(Instant::now);
    }

    pub(super) fn abort(&mut self) -> Result<()> {
        if self.is_post_copy {
            return Err(operation_invalid(
                "cannot abort migration in post-copy mode",
            ));
        }
        self.is_aborted = true;
        Ok(())
    }

    pub(super) fn set_max_downtime(&mut self, milliseconds: u64) -> Result<()> {
        if milliseconds > MAX_DOWNTIME_MS {
            return Err(qemu_error(
                code::INTERNAL_ERROR,
                "internal error: unable to execute QEMU command 'migrate-set-parameters': \
                          Parameter 'downtime-limit' expects an integer in the range of 0 to 2000000",
            ));
        }
        if milliseconds > CONVERGING_DOWNTIME_MS {
            self.let_converge();
        }
        Ok(())
    }

    pub(super) fn start_post_copy(&mut self) -> Result<()> {
        if !self.flags.contains(MigrationFlags::POST_COPY) {
            return Err(operation_invalid(
                "post-copy can only be started while outgoing migration is in progress",
            ));
        }
        self.is_post_copy = true;
        self.let_converge();
        Ok(())
    }

    /// The result, or `None` while the migration runs.
    pub(super) fn result(&self) -> Option<Result<()>> {
        if let Some(error) = &self.failure {
            return Some(Err(error.clone()));
        }
        if self.started.elapsed() < self.plan.prepare {
            return None;
        }
        if self.is_aborted && !self.plan.abort_hangs {
            return Some(Err(canceled_error()));
        }
        (self.progress() >= 1.0).then_some(Ok(()))
    }

    /// The share of the memory that is transferred, from 0 to 1.
    fn progress(&self) -> f64 {
        let since = match (
            self.plan.stuck,
            self.plan.never_converges,
            self.converges_since,
        ) {
            (true, _, _) | (false, true, None) => return 0.5,
            (false, true, Some(converges_since)) => converges_since,
            (false, false, _) => self.started + self.plan.prepare,
        };
        let elapsed = since.elapsed().as_secs_f64();
        match self.plan.transfer.as_secs_f64() {
            transfer if transfer > elapsed => elapsed / transfer,
            _ => 1.0,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a size"
    )]
    pub(super) fn stats(&self) -> JobStats {
        let is_prepared = self.started.elapsed() >= self.plan.prepare;
        let processed = (MEMORY_BYTES as f64 * self.progress()) as u64;
        // Before the transfer libvirt reports zeros.
        let since_transfer = |value| Some(if is_prepared { value } else { 0 });
        JobStats {
            job_type: JobType::Unbounded,
            operation: JobOperation::MigrationOut,
            time_elapsed: u64::try_from(self.started.elapsed().as_millis()).ok(),
            memory_total: since_transfer(MEMORY_BYTES),
            memory_processed: since_transfer(processed),
            memory_remaining: since_transfer(MEMORY_BYTES - processed),
            data_total: since_transfer(MEMORY_BYTES),
            data_processed: since_transfer(processed),
            data_remaining: since_transfer(MEMORY_BYTES - processed),
            memory_bps: since_transfer(100 << 20),
            memory_dirty_rate: since_transfer(10),
            memory_page_size: since_transfer(4096),
            memory_iteration: since_transfer(1),
        }
    }
}

fn canceled_error() -> Error {
    qemu_error(
        code::OPERATION_ABORTED,
        "operation aborted: migration out job: canceled by client",
    )
}

/// The course of a migration.
#[derive(Clone, Debug, Default)]
pub struct MigrationPlan {
    /// How long the target's preparation takes. An abort has no effect until it is complete.
    pub prepare: Duration,
    /// How long the transfer of the memory takes after the preparation.
    pub transfer: Duration,
    /// The guest writes to its memory as fast as the memory is transferred. The transfer makes progress only once the
    /// guest is paused, continues on the target, or may have a downtime of more than a minute.
    pub never_converges: bool,
    /// The transfer makes no progress.
    pub stuck: bool,
    /// An abort is accepted, but has no effect until
    /// [`FakeDaemon::finish_hung_abort`](super::FakeDaemon::finish_hung_abort).
    pub abort_hangs: bool,
    /// The whole guest is on the target, which may run it: if the daemon dies now, the next daemon leaves the guest
    /// paused.
    pub handed_over: bool,
    /// How long the next daemon takes to resume the guest, if the daemon dies. Until then the domain's state is
    /// unchanged, and calls that need the domain's job wait.
    pub recovery: Duration,
}

/// A requested migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMigration {
    /// The URI of the target.
    pub destination: String,
    /// The parameters.
    pub request: MigrationRequest,
}
