//! Starts and cancels migrations, one at a time, and completes their record.

use std::sync::Arc;

use kubevirt_api::domain_metadata::Migration;
use kubevirt_api::migration_metadata_values::RequestedMigration;
use tokio::sync::mpsc;

use super::migration_metadata::MigrationRecord;
use super::migration_request::MigrationJob;
use super::migration_task::{self, MigrationControl};
use crate::jobs::{JobError, JobKind, JobStart, Jobs};

/// The running migration.
pub(in crate::jobs) struct RunningMigration {
    record: MigrationRecord,
    /// Asks the migration's task to cancel.
    cancel: mpsc::Sender<()>,
}

impl Jobs {
    /// Starts a migration, unless a job is running or the last migration had the same UID.
    pub fn start_migration(&self, job: MigrationJob) -> JobStart {
        let mut state = self.lock();
        let last = self.context.recorder.migration();
        match (Migration::request(last.as_ref(), job.uid()), last) {
            (RequestedMigration::Ended, Some(last)) => {
                return JobStart::AlreadyExecuted(Box::new(last));
            }
            (RequestedMigration::UnderWay, _) => return JobStart::AlreadyRunning,
            _ => {}
        }
        // A second target could run the guest beside the first one.
        let running = self
            .running
            .borrow()
            .or(state.has_left.then_some(JobKind::Migration));
        if let Some(running) = running {
            return JobStart::Busy(running);
        }
        let aborted = self.begin_job(&mut state, JobKind::Migration);
        self.context.job_events.begin_migration();
        let record = MigrationRecord::begin(job.uid(), Arc::clone(&self.context.recorder));
        let (cancel, cancelled) = mpsc::channel(1);
        state.migration = Some(RunningMigration {
            record: record.clone(),
            cancel,
        });
        let control = MigrationControl {
            aborted,
            cancelled,
            progress: self.migration_progress.clone(),
        };
        tokio::spawn(self.clone().run_migration(job, record, control));
        JobStart::Started
    }

    /// Cancels the running migration, unless it is being aborted already. Returns at once.
    pub fn cancel_migration(&self) {
        let state = self.lock();
        let Some(migration) = &state.migration else {
            tracing::info!("there is no migration to cancel");
            return;
        };
        if migration.record.request_abort() {
            // Fails when the migration has just ended, or is being cancelled already.
            let _ = migration.cancel.try_send(());
        }
    }

    async fn run_migration(
        self,
        job: MigrationJob,
        record: MigrationRecord,
        control: MigrationControl,
    ) {
        let run = migration_task::run(Arc::clone(&self.context), job, record.clone(), control);
        let result = tokio::spawn(run).await.unwrap_or(Err(JobError::Internal));
        let mut state = self.lock();
        state.has_left = matches!(&result, Ok(()) | Err(JobError::GuestMayHaveMoved(_)));
        state.migration = None;
        state.abort = None;
        // The state is locked until no job runs: virt-handler may request the next migration as soon as it has read the
        // end.
        record.complete(result);
        self.running.send_replace(None);
    }
}
