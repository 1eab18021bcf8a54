//! Jobs: work on the domain that outlasts the command that starts it, and its result.
//!
//! ```text
//!            start                     end, failure, abort
//!   [idle] ────────▶ [running: kind] ──────────────────────▶ [idle], the record is complete
//! ```
//! libvirt runs one job of a domain at a time, and so does [`Jobs`]. [`Jobs::start_memory_dump`] and
//! [`Jobs::start_migration`] return at once. The job's own task reports progress, ends on [`Jobs::abort`], and
//! completes the record, which is part of the notifications to virt-handler. Every record is completed, even if the
//! task panics.

mod abort_reason;
mod backup;
mod error;
mod job_connection;
mod job_context;
mod job_kind_and_start_result;
mod memory_dump;
mod migration_source;
mod vm_events_for_job;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubevirt_api::domain_metadata::{Backup, MemoryDump};
use libvirt::JobStats;
use tokio::sync::watch;

pub(crate) use abort_reason::AbortReason;
pub(crate) use backup::{
    BackupError, BackupFields, BackupId, BackupRequest, BackupRequestError, Checkpoint,
    CheckpointError, ExportRequest, Mode,
};
pub(crate) use error::JobError;
pub(crate) use job_context::{JobContext, JobRecorder, MigrationEnvironment, ProgressTimes};
pub(crate) use job_kind_and_start_result::{JobKind, JobStart};
pub(crate) use memory_dump::MemoryDumpRequest;
pub(crate) use migration_source::{MigrationJob, MigrationRefusal};
pub(crate) use vm_events_for_job::VmEventsForJob;

use abort_reason::{AbortSignal, wait_for_abort};
use backup::Export;
use job_connection::{JobConnection, domain_call};
use migration_source::RunningMigration;

use crate::timestamp;

/// How long to wait for the end of an aborted job; the job's own timeouts are shorter.
const ABORT_TIMEOUT: Duration = Duration::from_secs(8);

/// Runs the domain's jobs, one at a time. Clones share their state.
#[derive(Clone)]
pub struct Jobs {
    context: Arc<JobContext>,
    state: Arc<Mutex<JobState>>,
    running: watch::Sender<Option<JobKind>>,
    migration_progress: watch::Sender<Option<JobStats>>,
}

/// The state of the jobs.
#[derive(Default)]
struct JobState {
    /// Sends the running job the reason to end.
    abort: Option<watch::Sender<Option<AbortReason>>>,
    /// The record of the last memory dump.
    memory_dump: Option<MemoryDump>,
    migration: Option<RunningMigration>,
    /// Whether the guest is on the target or may be there. It is never run here again.
    has_left: bool,
    /// The record of the last backup.
    backup: Option<Backup>,
    /// The running backup's tunnel to the export server.
    export: Option<Export>,
}

impl JobState {
    fn abort(&self, reason: AbortReason) {
        if let Some(abort) = &self.abort {
            abort.send_if_modified(|aborted| {
                let is_first = aborted.is_none();
                aborted.get_or_insert(reason);
                is_first
            });
        }
    }
}

impl Jobs {
    /// A runner without a job.
    pub fn new(context: JobContext) -> Jobs {
        Jobs {
            context: Arc::new(context),
            state: Arc::default(),
            running: watch::Sender::new(None),
            migration_progress: watch::Sender::new(None),
        }
    }

    /// Starts a memory dump, unless a job is running or the last dump had the same file name. A running dump with
    /// another file name is another job.
    pub fn start_memory_dump(&self, request: MemoryDumpRequest) -> JobStart {
        let mut state = self.lock();
        match *self.running.borrow() {
            Some(JobKind::MemoryDump) if request.is_recorded_in(state.memory_dump.as_ref()) => {
                return JobStart::AlreadyRunning;
            }
            Some(running) => return JobStart::Busy(running),
            None => {}
        }
        if request.is_recorded_in(state.memory_dump.as_ref()) {
            return JobStart::AlreadyDone;
        }
        let aborted = self.begin_job(&mut state, JobKind::MemoryDump);
        let record = memory_dump::begin(&request, timestamp::now());
        self.set_memory_dump(&mut state, record);
        tokio::spawn(self.clone().run_memory_dump(request, aborted));
        JobStart::Started
    }

    /// Whether the VM is migrating to another pod, or may have arrived there.
    pub fn migrates_away(&self) -> bool {
        let state = self.lock();
        state.has_left || state.migration.is_some()
    }

    /// libvirt's statistics of the running migration, as they were last read.
    pub fn migration_progress(&self) -> Option<JobStats> {
        *self.migration_progress.borrow()
    }

    /// Records that a job runs from now on. The job gets the returned signal when it is to end.
    fn begin_job(&self, state: &mut JobState, kind: JobKind) -> AbortSignal {
        let (abort, aborted) = watch::channel(None);
        state.abort = Some(abort);
        self.running.send_replace(Some(kind));
        aborted
    }

    /// Asks the running job to end; returns at once. Only the first reason of a job counts.
    pub fn abort(&self, reason: AbortReason) {
        self.lock().abort(reason);
    }

    /// Aborts the running job, and waits until it has ended and its record was sent to virt-handler.
    pub async fn end(&self, reason: AbortReason) {
        if self.running.borrow().is_none() {
            return;
        }
        self.abort(reason);
        if tokio::time::timeout(ABORT_TIMEOUT, self.all_published())
            .await
            .is_err()
        {
            tracing::warn!("an aborted job has not ended within {ABORT_TIMEOUT:?}");
        }
    }

    /// Resolves when no job runs and the last one's record was sent to virt-handler.
    pub async fn all_published(&self) {
        self.wait_until_ended().await;
        self.context.recorder.all_published().await;
    }

    /// Resolves when no job runs; the record of the last one is complete by then.
    pub async fn wait_until_ended(&self) {
        // Cannot fail: `self` holds the sender.
        let _ = self.running.subscribe().wait_for(Option::is_none).await;
    }

    /// The kind of the running job, if any.
    pub fn running(&self) -> watch::Receiver<Option<JobKind>> {
        self.running.subscribe()
    }

    /// Records that no job runs from now on. The record of the last job must be complete.
    fn end_job(&self, state: &mut JobState) {
        state.abort = None;
        self.running.send_replace(None);
    }

    async fn run_memory_dump(self, request: MemoryDumpRequest, aborted: AbortSignal) {
        let job = memory_dump::run(Arc::clone(&self.context), request, aborted);
        // A separate task, so that a panic in the job ends only the job.
        let result = tokio::spawn(job).await.unwrap_or(Err(JobError::Internal));
        let mut state = self.lock();
        let started_record = state.memory_dump.take().unwrap_or_default();
        let record = memory_dump::complete(started_record, timestamp::now(), result);
        self.set_memory_dump(&mut state, record);
        self.end_job(&mut state);
    }

    fn set_memory_dump(&self, state: &mut JobState, record: MemoryDump) {
        state.memory_dump = Some(record.clone());
        self.context.recorder.set_memory_dump(record);
    }

    fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod running_test_vm;
