//! A migration under way.

use std::time::Instant;

use super::invalid_operation::invalid;
use super::migration_plan::MigrationPlan;
use crate::domain_jobs::{JobOperation, JobStats, JobType};
use crate::error::{Error, Result, code, origin};
use crate::migration::MigrationFlags;

/// Bytes of the guest's memory.
const SIZE: u64 = 256 << 20;
/// QEMU accepts no longer downtime.
const LONGEST_DOWNTIME: u64 = 2_000_000;

/// A migration under way.
pub(super) struct RunningMigration {
    pub(super) started: Instant,
    pub(super) plan: MigrationPlan,
    /// Whether the guest was running and is to be resumed after a failure.
    pub(super) resume: bool,
    /// The error that ends it early.
    pub(super) failure: Option<Error>,
    pub(super) is_post_copy: bool,
    flags: MigrationFlags,
    is_aborted: bool,
    /// When a guest that writes too fast was stopped.
    assisted: Option<Instant>,
}

impl RunningMigration {
    pub(super) fn new(
        plan: MigrationPlan,
        flags: MigrationFlags,
        resume: bool,
        failure: Option<Error>,
    ) -> Self {
        RunningMigration {
            started: Instant::now(),
            plan,
            resume,
            failure,
            is_post_copy: false,
            flags,
            is_aborted: false,
            assisted: None,
        }
    }

    /// The guest no longer writes.
    pub(super) fn assist(&mut self) {
        self.assisted.get_or_insert_with(Instant::now);
    }

    pub(super) fn abort(&mut self) -> Result<()> {
        if self.is_post_copy {
            return Err(invalid("cannot abort migration in post-copy mode"));
        }
        self.is_aborted = true;
        Ok(())
    }

    pub(super) fn set_max_downtime(&mut self, milliseconds: u64) -> Result<()> {
        if milliseconds > LONGEST_DOWNTIME {
            return Err(Error {
                code: code::INTERNAL_ERROR,
                domain: origin::QEMU,
                message: "internal error: unable to execute QEMU command 'migrate-set-parameters': \
                          Parameter 'downtime-limit' expects an integer in the range of 0 to 2000000"
                    .into(),
            });
        }
        if milliseconds > 60_000 {
            self.assist();
        }
        Ok(())
    }

    pub(super) fn start_post_copy(&mut self) -> Result<()> {
        if !self.flags.contains(MigrationFlags::POST_COPY) {
            return Err(invalid(
                "post-copy can only be started while outgoing migration is in progress",
            ));
        }
        self.is_post_copy = true;
        self.assist();
        Ok(())
    }

    /// The result, once it is known.
    pub(super) fn result(&self) -> Option<Result<()>> {
        if let Some(error) = &self.failure {
            return Some(Err(error.clone()));
        }
        if self.started.elapsed() < self.plan.prepare {
            return None;
        }
        if self.is_aborted && !self.plan.abort_hangs {
            return Some(Err(canceled()));
        }
        (self.share() >= 1.0).then_some(Ok(()))
    }

    /// How much is transferred, of one.
    fn share(&self) -> f64 {
        let since = match (self.plan.stuck, self.plan.never_converges, self.assisted) {
            (true, _, _) | (false, true, None) => return 0.5,
            (false, true, Some(assisted)) => assisted,
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
        let processed = (SIZE as f64 * self.share()) as u64;
        // libvirt counts nothing before the transfer.
        let known = |value| Some(if is_prepared { value } else { 0 });
        JobStats {
            job_type: JobType::Unbounded,
            operation: JobOperation::MigrationOut,
            time_elapsed: u64::try_from(self.started.elapsed().as_millis()).ok(),
            memory_total: known(SIZE),
            memory_processed: known(processed),
            memory_remaining: known(SIZE - processed),
            data_total: known(SIZE),
            data_processed: known(processed),
            data_remaining: known(SIZE - processed),
            memory_bps: known(100 << 20),
            memory_dirty_rate: known(10),
            memory_page_size: known(4096),
            memory_iteration: known(1),
        }
    }
}

fn canceled() -> Error {
    Error {
        code: code::OPERATION_ABORTED,
        domain: origin::QEMU,
        message: "operation aborted: migration out job: canceled by client".into(),
    }
}
