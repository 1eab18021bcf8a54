//! A running migration and its progress.

use std::time::Instant;

use super::errors::{operation_invalid, qemu_error};
use super::migration_plan_and_record::MigrationPlan;
use crate::domain_jobs::{JobOperation, JobStats, JobType};
use crate::error::{Error, Result, code};
use crate::migration::MigrationFlags;

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
