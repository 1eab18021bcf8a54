//! Jobs: work on the domain that outlasts the command that starts it.
//!
//! ```text
//!            start                     end, failure, abort
//!   [idle] ────────▶ [running: kind] ──────────────────────▶ [idle], the record is complete
//! ```
//! libvirt runs one job of a domain at a time, and so does [`Jobs`]. [`Jobs::start_memory_dump`] and
//! [`Jobs::start_migration`] return at once; the job's own task reports progress, obeys [`Jobs::abort`] and completes
//! the record, which is part of the notifications to virt-handler. Every record is completed, also when the task
//! panics.

mod abort_reason;
mod backup;
mod error;
mod job_connection;
mod memory_dump;
mod migration;
mod vm_events_for_job;

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::host_facts::HostFacts;
use futures_util::future::BoxFuture;
use hook_host::Invocation;
use kubevirt_api::domain_metadata::{Backup, MemoryDump, Migration};
use kubevirt_api::migration_metadata::MigrationRequest;
use libvirt::JobStats;
use tokio::sync::{mpsc, watch};

pub(crate) use abort_reason::AbortReason;
pub(crate) use backup::{
    BackupError, BackupFields, BackupId, BackupRequest, BackupRequestError, Checkpoint,
    CheckpointError, ExportRequest, Mode,
};
pub(crate) use error::JobError;
pub(crate) use memory_dump::MemoryDumpRequest;
pub(crate) use migration::{MigrationJob, MigrationRefusal};
pub(crate) use vm_events_for_job::VmEventsForJob;

use job_connection::{JobConnection, domain_call};
use migration::{MigrationControl, MigrationRecord};

use crate::agent::Freezer;
use crate::blocking;
use crate::first_migration_error_in_libvirt_log::MigrationErrorLog;
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::libvirt_client::{Client, Connect, ConnectTarget};
use crate::timestamp;
use crate::vm_events::VmEvent;

/// For the end of an aborted job; the job's own timeouts are shorter.
const ABORT_TIMEOUT: Duration = Duration::from_secs(8);
/// Connecting, and looking up the domain.
const OPEN: Duration = Duration::from_secs(10);

/// Keeps the records of jobs and publishes them to virt-handler.
pub trait JobRecorder: Send + Sync {
    /// Replaces the record of the memory dump.
    fn set_memory_dump(&self, record: MemoryDump);

    /// The record of the last migration, from or to this launcher.
    fn migration(&self) -> Option<Migration>;

    /// Replaces the record of the migration.
    fn set_migration(&self, record: Migration);

    /// Replaces the record of the backup.
    fn set_backup(&self, record: Backup);

    /// Resolves when the current records were sent to virt-handler.
    fn all_published(&self) -> BoxFuture<'_, ()>;
}

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// The guest's memory is written to a file.
    MemoryDump,
    /// The VM moves to another pod.
    Migration,
    /// The disks are backed up, or served for that.
    Backup,
}

impl JobKind {
    /// Whether a sync must leave a paused guest alone while the job runs.
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

/// What became of a request to start a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobStart {
    /// The job runs.
    Started,
    /// The same one runs; the request has no effect.
    AlreadyRunning,
    /// The last memory dump was the same one; the request has no effect.
    AlreadyDone,
    /// The last migration was the same one: a migration is executed once.
    AlreadyExecuted(Box<Migration>),
    /// Another job runs.
    Busy(JobKind),
}

/// How often a job's progress is reported, and how long there may be none.
#[derive(Debug, Clone, Copy)]
pub struct ProgressTimes {
    /// Pause between two reports.
    pub report: Duration,
    /// A job without progress for this long is aborted. The whole job has no deadline: its duration depends on the
    /// guest's size.
    pub stall: Duration,
}

impl Default for ProgressTimes {
    fn default() -> Self {
        ProgressTimes {
            report: Duration::from_secs(10),
            stall: Duration::from_secs(300),
        }
    }
}

/// What jobs work with.
#[derive(Clone)]
pub struct JobContext {
    /// libvirt's name of the domain.
    pub domain: String,
    /// Opens connections to libvirt. Each job has its own, so that a call which lasts as long as the job occupies no
    /// request slot of the main connection.
    pub connect: Connect,
    /// Opens connections to the daemon of a migration's target.
    pub connect_target: ConnectTarget,
    /// Keeps the records.
    pub recorder: Arc<dyn JobRecorder>,
    /// How the progress of a memory dump is watched.
    pub progress: ProgressTimes,
    /// What migrations from this launcher find in the pod.
    pub migration: MigrationEnvironment,
    /// For jobs whose calls to libvirt are short.
    pub client: Client,
    /// Freezes and thaws the guest.
    pub freezer: Freezer,
    /// Where QEMU serves a backup in pull mode.
    pub backup_socket: PathBuf,
    /// The hooks, which see a migration before it begins.
    pub hooks: Arc<dyn Hooks>,
    /// Kubernetes events about hooks that failed.
    pub hook_failures: HookFailureEvents,
    /// What hooks hear of the migration's source.
    pub invocation: Invocation,
    /// Events for the observer.
    pub events: mpsc::UnboundedSender<VmEvent>,
    /// What the observer hears about the job.
    pub job_events: Arc<VmEventsForJob>,
}

/// What migrations from this launcher find in the pod.
#[derive(Debug, Clone, Default)]
pub struct MigrationEnvironment {
    /// `--kubevirt-share-dir`, with virt-handler's sockets towards the target.
    pub share: PathBuf,
    /// `--ephemeral-disk-dir`.
    pub ephemeral_disks: PathBuf,
    /// The node.
    pub facts: HostFacts,
    /// The source names files and processors for the target. Otherwise the target does, through libvirt's hook
    /// (`--libvirt-hook-server-and-client`).
    pub names_for_target: bool,
    /// What libvirt's daemon logs about the migration.
    pub log: MigrationErrorLog,
    /// The file that tells KubeVirt that the VM has migrated away; its directory exists with backend storage only.
    pub migrated_marker: PathBuf,
}

impl JobContext {
    /// The guest is about to be ended here, or has ended here, because it has migrated, which libvirt does not know: its
    /// hook, which writes the marker after a migration, gets another end.
    async fn report_departure(&self) {
        // Fails only when the observer is gone.
        let _ = self.events.send(VmEvent::Departing);
        let marker = self.migration.migrated_marker.clone();
        let write = move || create_marker(&marker);
        let written = blocking::file_call("marking the backend storage", OPEN, write).await;
        let written = written.map_err(|error| error.to_string());
        if let Err(reason) = written.and_then(|io| io.map_err(|error| error.to_string())) {
            tracing::error!(
                reason,
                "KubeVirt may keep the backend storage that the guest has left"
            );
        }
    }

    /// A connection of the job's own.
    async fn open(&self) -> Result<JobConnection, JobError> {
        let (connect, domain) = (Arc::clone(&self.connect), self.domain.clone());
        let open = move || JobConnection::open(&connect, &domain);
        let opened = blocking::call("looking up the domain", OPEN, open).await??;
        opened.ok_or_else(|| JobError::NoDomain(self.domain.clone()))
    }
}

/// Creates the marker if its directory exists.
fn create_marker(marker: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o644);
    match options.open(marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened.map(drop),
    }
}

/// Why the job is to end, once it is.
type AbortSignal = watch::Receiver<Option<AbortReason>>;

/// Resolves when the job is to end.
async fn abort_reason(aborted: &mut AbortSignal) -> AbortReason {
    match aborted
        .wait_for(Option::is_some)
        .await
        .map(|reason| *reason)
    {
        Ok(Some(reason)) => reason,
        // The job runner is gone, so that nothing can abort.
        _ => std::future::pending().await,
    }
}

/// Runs the domain's jobs, one at a time. Clones are the same runner.
#[derive(Clone)]
pub struct Jobs {
    context: Arc<JobContext>,
    state: Arc<Mutex<State>>,
    running: watch::Sender<Option<JobKind>>,
    progress: watch::Sender<Option<JobStats>>,
}

#[derive(Default)]
struct State {
    abort: Option<watch::Sender<Option<AbortReason>>>,
    memory_dump: Option<MemoryDump>,
    migration: Option<RunningMigration>,
    /// The target has the guest, or may have it: it never runs here again.
    has_left: bool,
    backup: Option<Backup>,
    /// The running backup's tunnel to the export server.
    export: Option<backup::Export>,
}

impl State {
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

struct RunningMigration {
    record: MigrationRecord,
    cancel: mpsc::UnboundedSender<()>,
}

impl Jobs {
    /// No job runs yet.
    pub fn new(context: JobContext) -> Jobs {
        Jobs {
            context: Arc::new(context),
            state: Arc::default(),
            running: watch::Sender::new(None),
            progress: watch::Sender::new(None),
        }
    }

    /// Starts a memory dump, unless a job runs or the last dump was the same.
    pub fn start_memory_dump(&self, request: MemoryDumpRequest) -> JobStart {
        let mut state = self.lock();
        match *self.running.borrow() {
            Some(JobKind::MemoryDump) => return JobStart::AlreadyRunning,
            Some(running) => return JobStart::Busy(running),
            None => {}
        }
        if request.is_recorded_in(state.memory_dump.as_ref()) {
            return JobStart::AlreadyDone;
        }
        let aborted = self.begin(&mut state, JobKind::MemoryDump);
        let record = memory_dump::begin(&request, timestamp::now());
        self.record(&mut state, record);
        tokio::spawn(self.clone().run_memory_dump(request, aborted));
        JobStart::Started
    }

    /// Starts a migration, unless a job runs or the last migration was the same.
    pub fn start_migration(&self, job: MigrationJob) -> JobStart {
        let mut state = self.lock();
        let last = self.context.recorder.migration();
        match (Migration::request(last.as_ref(), job.uid()), last) {
            (MigrationRequest::Ended, Some(last)) => {
                return JobStart::AlreadyExecuted(Box::new(last));
            }
            (MigrationRequest::UnderWay, _) => return JobStart::AlreadyRunning,
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
        let aborted = self.begin(&mut state, JobKind::Migration);
        self.context.job_events.begin_migration();
        let record = MigrationRecord::begin(job.uid(), Arc::clone(&self.context.recorder));
        let (cancel, cancelled) = mpsc::unbounded_channel();
        state.migration = Some(RunningMigration {
            record: record.clone(),
            cancel,
        });
        let control = MigrationControl {
            aborted,
            cancelled,
            progress: self.progress.clone(),
        };
        tokio::spawn(self.clone().run_migration(job, record, control));
        JobStart::Started
    }

    /// Cancels the running migration, unless that is under way; returns at once.
    pub fn cancel_migration(&self) {
        let state = self.lock();
        let Some(migration) = &state.migration else {
            tracing::info!("there is no migration to cancel");
            return;
        };
        if migration.record.request_abort() {
            // Fails only when the migration has just ended.
            let _ = migration.cancel.send(());
        }
    }

    /// Whether the VM is on its way to another pod, or has arrived there.
    pub fn migrates_away(&self) -> bool {
        let state = self.lock();
        state.has_left || state.migration.is_some()
    }

    /// libvirt's statistics of the running migration, as they were read last.
    pub fn migration_progress(&self) -> Option<JobStats> {
        *self.progress.borrow()
    }

    /// The job runs from now on.
    fn begin(&self, state: &mut State, kind: JobKind) -> AbortSignal {
        let (abort, aborted) = watch::channel(None);
        state.abort = Some(abort);
        self.running.send_replace(Some(kind));
        aborted
    }

    /// Asks the running job to end; returns at once. The first reason counts.
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
        self.ended().await;
        self.context.recorder.all_published().await;
    }

    /// Resolves when no job runs; the record of the last one is complete by then.
    pub async fn ended(&self) {
        // Cannot fail: `self` holds the sender.
        let _ = self.running.subscribe().wait_for(Option::is_none).await;
    }

    /// The running job, as it changes.
    pub fn running(&self) -> watch::Receiver<Option<JobKind>> {
        self.running.subscribe()
    }

    /// No job runs from now on; the record is complete.
    fn release(&self, state: &mut State) {
        state.abort = None;
        self.running.send_replace(None);
    }

    async fn run_memory_dump(self, request: MemoryDumpRequest, aborted: AbortSignal) {
        let job = memory_dump::run(Arc::clone(&self.context), request, aborted);
        // A separate task, so that a panic in the job ends only the job.
        let result = tokio::spawn(job).await.unwrap_or(Err(JobError::Fault));
        let mut state = self.lock();
        let begun = state.memory_dump.take().unwrap_or_default();
        let record = memory_dump::complete(begun, timestamp::now(), result);
        self.record(&mut state, record);
        self.release(&mut state);
    }

    async fn run_migration(
        self,
        job: MigrationJob,
        record: MigrationRecord,
        control: MigrationControl,
    ) {
        let run = migration::run(Arc::clone(&self.context), job, record.clone(), control);
        let result = tokio::spawn(run).await.unwrap_or(Err(JobError::Fault));
        let mut state = self.lock();
        state.has_left = matches!(&result, Ok(()) | Err(JobError::GuestMayHaveMoved(_)));
        state.migration = None;
        state.abort = None;
        // virt-handler may ask for the next migration as soon as it has read the end; that waits for this lock.
        record.complete(result);
        self.running.send_replace(None);
    }

    fn record(&self, state: &mut State, record: MemoryDump) {
        state.memory_dump = Some(record.clone());
        self.context.recorder.set_memory_dump(record);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
