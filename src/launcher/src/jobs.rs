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

mod backup;
mod job_context;
mod memory_dump;
mod migration_source;
#[cfg(test)]
mod running_test_vm;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::domain_spec_from_xml::ParseError;
use domain::migration::MigrationXmlError;
use hook_host::HookError;
use kubevirt_api::domain_metadata::{Backup, MemoryDump, Migration};
use libvirt::JobStats;
use tokio::sync::watch;

use crate::blocking::NoAnswer;
use crate::timestamp;
use backup::Export;
pub(crate) use backup::{
    BackupError, BackupFields, BackupId, BackupRequest, BackupRequestError, Checkpoint,
    CheckpointError, ExportRequest, Mode,
};
use job_context::{JobConnection, domain_call};
pub(crate) use job_context::{
    JobContext, JobRecorder, MigrationEnvironment, ProgressTimes, VmEventsForJob,
};
pub(crate) use memory_dump::MemoryDumpRequest;
use migration_source::RunningMigration;
pub(crate) use migration_source::{MigrationJob, MigrationRefusal};

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

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Writes the guest's memory to a file.
    MemoryDump,
    /// Migrates the VM to another pod.
    Migration,
    /// Backs up the disks, or serves them to a backup.
    Backup,
}

impl JobKind {
    /// Whether the job may pause the guest, so that a sync must not resume it.
    pub fn pauses_guest(self) -> bool {
        self != JobKind::Backup
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobKind::MemoryDump => "a memory dump",
            JobKind::Migration => "a migration",
            JobKind::Backup => "a backup",
        })
    }
}

/// The result of a request to start a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobStart {
    /// The job was started.
    Started,
    /// The same job is running already; the request has no effect.
    AlreadyRunning,
    /// The last memory dump had the same file name; the request has no effect.
    AlreadyDone,
    /// The last migration had the same UID, and a migration is executed only once.
    AlreadyExecuted(Box<Migration>),
    /// Another job is running.
    Busy(JobKind),
}

/// Why a job is aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AbortReason {
    /// The guest is asked to power off, which a guest that is paused for a job cannot do.
    #[error("the virtual machine is being shut down")]
    Shutdown,
    /// QEMU is being killed.
    #[error("the virtual machine is being ended")]
    Kill,
    /// virt-handler requested the abort.
    #[error("it was aborted on request")]
    Requested,
    /// The launcher exits, and the VM ends with it.
    #[error("the launcher is exiting")]
    Exit,
}

/// The reason to abort the job, once there is one.
type AbortSignal = watch::Receiver<Option<AbortReason>>;

/// Waits until the job is to be aborted.
async fn wait_for_abort(aborted: &mut AbortSignal) -> AbortReason {
    match aborted
        .wait_for(Option::is_some)
        .await
        .map(|reason| *reason)
    {
        Ok(Some(reason)) => reason,
        // The job runner is gone, so that nothing can abort the job.
        _ => std::future::pending().await,
    }
}

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// A call of libvirt failed.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// The connection to a migration's target ended after the migration had failed, according to libvirt's log.
    #[error("{error}; before that: {reason}")]
    TargetLost {
        /// The error of libvirt's call.
        error: libvirt::Error,
        /// The first error in libvirt's log.
        reason: String,
    },
    /// A call timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The domain does not exist.
    #[error("there is no domain {0}")]
    NoDomain(String),
    /// The directory of a memory dump cannot be written to.
    #[error("{path} is not a writable directory ({reason}); is its volume attached?")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The file system's error.
        reason: String,
    },
    /// The job was aborted.
    #[error("aborted, since {0}")]
    Aborted(AbortReason),
    /// The job made no progress for this long.
    #[error("nothing was written for {0:?}; is the storage reachable?")]
    NoProgress(Duration),
    /// virt-handler cancelled the migration before libvirt started it.
    #[error("Live migration has been aborted")]
    Cancelled,
    /// An annotation of KubeVirt's functional tests lets the migration fail.
    #[error("Failed migration to satisfy functional test condition")]
    FailureByTestAnnotation,
    /// The domain's XML for the target cannot be created.
    #[error(transparent)]
    MigrationXml(#[from] MigrationXmlError),
    /// The XML of the domain could not be parsed.
    #[error("reading libvirt's description of the domain: {0}")]
    DomainDescription(#[from] ParseError),
    /// A hook vetoed the migration, or failed.
    #[error(transparent)]
    Hook(#[from] Box<HookError>),
    /// The guest has not released its SR-IOV interfaces, which cannot migrate, within this time.
    #[error(
        "the guest has not released its SR-IOV interfaces within {0:?}; does it support hot-unplug?"
    )]
    HostDevicesNotReleased(Duration),
    /// The migration failed when the guest, or a part of its memory, may have been on the target already.
    #[error(
        "{0}; the guest is not resumed here, because the target has it, or a part of it, or may have it"
    )]
    GuestMayHaveMoved(Box<JobError>),
    /// The job's task or thread panicked or could not be started.
    #[error(
        "the job failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Internal,
}
