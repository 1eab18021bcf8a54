//! Backups of the disks whose changed blocks are tracked.
//!
//! ```text
//!          refused                              libvirt's job ends, by itself or by an abort
//!        ┌───────────┐                                 ┌───────────────────────┐
//!        ▼           │                                 ▼                       │
//!   [no record]   [starting: quiesce, begin, thaw] [complete]        [running: watched, exported]
//!        │           ▲          │                                              ▲
//!        └── start ──┘          └──────────────── libvirt's job runs ──────────┘
//! ```
//! A request to start is answered when libvirt's job runs. A start that fails leaves an empty record, so that it can be
//! repeated.

mod backup_metadata_rules;
mod backup_request;
mod export;
mod redefine_checkpoint;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::backup_plan::{BackupMode, BackupPlan, BackupSettings};
use kubevirt_api::domain_metadata::Backup;
use libvirt::{CompletedJob, Domain, JobOperation, JobStats, JobType};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{AbortReason, AbortSignal, JobKind, JobStart, JobState, Jobs};
use crate::blocking::NoAnswer;
use crate::guest_agent::{Change, FreezeRequest};
use crate::jobs::{JobContext, JobError, wait_for_abort};
use crate::libvirt_client::{COMMAND, CallError, QUICK, START, SnapshotError};
use crate::{blocking, timestamp};
use backup_metadata_rules::{BackupEnd, StartDecision};
pub(crate) use backup_request::{
    BackupFields, BackupId, BackupRequest, BackupRequestError, ExportRequest, Mode,
};
pub(super) use export::Export;
pub(crate) use redefine_checkpoint::{Checkpoint, CheckpointError};

/// How long a request to abort waits for the end of the backup. The abort continues in the background after that.
const ABORT_TIMEOUT: Duration = Duration::from_secs(8);

impl Jobs {
    /// Starts a backup. Returns when libvirt's job runs.
    pub(crate) async fn start_backup(
        &self,
        request: BackupRequest,
    ) -> Result<JobStart, BackupError> {
        let started = {
            let mut state = self.lock();
            match *self.running.borrow() {
                Some(JobKind::Backup) | None => {}
                Some(JobKind::Migration) => return Err(BackupError::MigrationRuns),
                Some(other) => return Err(BackupError::OtherJobRuns(other)),
            }
            match backup_metadata_rules::decide(state.backup.as_ref(), &request)? {
                StartDecision::Start => {}
                StartDecision::AlreadyRunning => return Ok(JobStart::AlreadyRunning),
            }
            let aborted = self.begin_job(&mut state, JobKind::Backup);
            self.set_backup(&mut state, backup_metadata_rules::begin(&request));
            let (started_sender, started) = oneshot::channel();
            tokio::spawn(self.clone().run_backup(request, aborted, started_sender));
            started
        };
        started.await.unwrap_or(Err(BackupError::Internal))?;
        Ok(JobStart::Started)
    }

    /// Aborts the running backup.
    pub(crate) async fn abort_backup(&self, id: &BackupId) -> Result<(), BackupError> {
        {
            let state = self.lock();
            backup_metadata_rules::require_running(state.backup.as_ref(), id)
                .map_err(|error| BackupError::Abort(Box::new(error)))?;
            // While the state is locked, because after the backup's end this would abort the next job.
            state.abort(AbortReason::Requested);
        }
        if tokio::time::timeout(ABORT_TIMEOUT, self.wait_until_ended())
            .await
            .is_err()
        {
            tracing::warn!("the aborted backup has not ended within {ABORT_TIMEOUT:?}");
        }
        Ok(())
    }

    async fn run_backup(
        self,
        request: BackupRequest,
        aborted: AbortSignal,
        started_sender: oneshot::Sender<Result<(), BackupError>>,
    ) {
        // Separate tasks, so that a panic ends only the job.
        let task = start_backup(self.clone(), request.clone(), aborted.clone());
        let started = tokio::spawn(task).await;
        let domain = match started.unwrap_or(Err(BackupError::Internal)) {
            Ok(domain) => domain,
            Err(error) => {
                tracing::error!(backup = request.name(), reason = %error, "the backup did not start");
                let mut state = self.lock();
                self.set_backup(&mut state, Backup::default());
                self.end_job(&mut state);
                drop(state);
                let _ = started_sender.send(Err(error));
                return;
            }
        };
        tracing::info!(backup = request.name(), "the backup runs");
        // Fails if the caller gave up; virt-handler then repeats the request.
        let _ = started_sender.send(Ok(()));
        let end = self.watch_backup(&request, domain, aborted.clone()).await;
        if request.mode() == Mode::Pull {
            // A QEMU that was killed leaves its socket behind.
            remove_socket(self.context.backup_socket.clone()).await;
        }
        let aborted = *aborted.borrow();
        let mut state = self.lock();
        state.export = None;
        let started_record = state.backup.take().unwrap_or_default();
        let keeps_files = matches!(end, BackupEnd::Abandoned(_));
        let record = backup_metadata_rules::complete(
            started_record,
            request.mode(),
            timestamp::now(),
            end,
            aborted,
        );
        match record.failed {
            true => {
                tracing::error!(
                    backup = request.name(),
                    reason = record.backup_msg,
                    "the backup failed"
                );
                if !keeps_files {
                    tokio::spawn(remove_directory(request.directory().to_owned()));
                }
            }
            false => tracing::info!(backup = request.name(), "the backup has ended"),
        }
        self.set_backup(&mut state, record);
        self.end_job(&mut state);
    }

    async fn watch_backup(
        &self,
        request: &BackupRequest,
        domain: Arc<dyn Domain>,
        aborted: AbortSignal,
    ) -> BackupEnd {
        let watch = watch_backup(Arc::clone(&self.context), domain, request.mode(), aborted);
        let failed = |_| BackupEnd::WatchFailed(BackupError::Internal.to_string());
        tokio::spawn(watch).await.unwrap_or_else(failed)
    }

    /// Changes the record of the backup that starts.
    fn change_backup(&self, change: impl FnOnce(&mut Backup)) {
        let mut state = self.lock();
        let mut record = state.backup.clone().unwrap_or_default();
        change(&mut record);
        self.set_backup(&mut state, record);
    }

    fn set_backup(&self, state: &mut JobState, record: Backup) {
        state.backup = Some(record.clone());
        self.context.recorder.set_backup(record);
    }
}

/// Why a request about a backup failed. libvirt's errors keep the form that KubeVirt's users search for.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A call of libvirt failed or timed out.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Reading the domain failed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A file operation timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// Another backup is running.
    #[error("backup {0} already in progress, need to wait for completion")]
    InProgress(String),
    /// The same backup has ended.
    #[error("backup {name} that started at {start} has ended at {end}, {}", if *failed { "and failed" } else { "complete" })]
    AlreadyEnded {
        /// The backup's name.
        name: String,
        /// When the backup started.
        start: String,
        /// When the backup ended.
        end: String,
        /// Whether the backup failed.
        failed: bool,
    },
    /// A job of another kind is running.
    #[error("failed to do backup: {0} is in progress; try again when it has ended")]
    OtherJobRuns(JobKind),
    /// The VM migrates from or to this pod.
    #[error("failed to do backup, VMI is currently during migration")]
    MigrationRuns,
    /// There is no backup to abort or export.
    #[error("could not find ongoing backup")]
    NotFound,
    /// The backup has no start time.
    #[error("backup did not start yet")]
    NotStarted,
    /// The request names another backup than the running one.
    #[error("requested backup differs from ongoing one")]
    OtherBackup,
    /// The backup has ended.
    #[error("backup already completed")]
    Completed,
    /// The backup cannot be aborted.
    #[error("failed to abort backup: {0}")]
    Abort(#[source] Box<BackupError>),
    /// The domain does not exist or does not run.
    #[error("there is no running domain {0} to back up")]
    NoDomain(String),
    /// No disk has its changed blocks tracked.
    #[error(
        "no disk of the domain has its changed blocks tracked, so that there is nothing to back up"
    )]
    NoTrackedDisk,
    /// The directory of the backup cannot be created.
    #[error(
        "the directory {path} for the backup cannot be made ({reason}); is its volume attached?"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The file system's error.
        reason: String,
    },
    /// QEMU's socket for the backup does not exist.
    #[error("there is no socket {path} to serve the backup from ({reason})")]
    NoSocket {
        /// The socket.
        path: PathBuf,
        /// The file system's error.
        reason: String,
    },
    /// The backup was aborted before libvirt's job ran.
    #[error("backup aborted, since {0}")]
    Aborted(AbortReason),
    /// The task of the backup panicked.
    #[error(
        "the backup failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Internal,
}

const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(4);
const DIRECTORY_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of removing files: they may have many gigabytes and be on slow storage.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(60);
/// The guest is thawed after this time, if libvirt has not begun the backup by then.
const SAFETY_THAW_DELAY: Duration = Duration::from_secs(30);
/// KubeVirt's values of the record's `quiesce_status`.
const QUIESCE_SUCCEEDED: &str = "Succeeded";
const QUIESCE_FAILED: &str = "Failed";
const QUIESCE_SKIPPED: &str = "Skipped";
/// The message if the safety thaw, or another client, thawed the guest before the backup had begun.
const THAWED_EARLY: &str = "the guest was thawed before the backup had begun";

/// Starts a backup. Returns when libvirt's job runs. After a failure nothing is left except the bitmaps of QEMU's
/// images.
async fn start_backup(
    jobs: Jobs,
    request: BackupRequest,
    aborted: AbortSignal,
) -> Result<Arc<dyn Domain>, BackupError> {
    tracing::info!(
        backup = request.name(),
        mode = request.mode().as_str(),
        "starting a backup"
    );
    let context = &*jobs.context;
    let domain = context.client.lookup().await?;
    let domain = domain.ok_or_else(|| BackupError::NoDomain(context.domain.clone()))?;
    let plan = plan(context, &request).await?;
    create_directory(request.directory().to_owned()).await?;
    let begin_result = match require_not_aborted(&aborted) {
        Ok(()) => quiesce_and_begin(&jobs, &request, &domain, &plan, &aborted).await,
        Err(error) => Err(error),
    };
    match begin_result {
        Ok(()) => Ok(domain),
        Err(error) => {
            remove_directory(request.directory().to_owned()).await;
            Err(error)
        }
    }
}

async fn plan(context: &JobContext, request: &BackupRequest) -> Result<BackupPlan, BackupError> {
    let no_domain = || BackupError::NoDomain(context.domain.clone());
    let snapshot = context.client.snapshot(SNAPSHOT_TIMEOUT).await;
    let spec = snapshot.map_err(|error| match error {
        SnapshotError::Libvirt(error) if error.is_no_domain() => no_domain(),
        error => error.into(),
    })?;
    let spec = spec.spec.ok_or_else(no_domain)?;
    let mode = match request.mode() {
        Mode::Push => BackupMode::Push,
        Mode::Pull => BackupMode::Pull {
            socket: context.backup_socket.to_string_lossy().into_owned(),
        },
    };
    let plan = BackupPlan::new(
        &spec,
        &BackupSettings {
            name: request.name(),
            checkpoint: &request.checkpoint(),
            incremental: request.incremental(),
            mode: &mode,
            directory: request.directory(),
        },
    );
    match plan.volumes.is_empty() {
        true => Err(BackupError::NoTrackedDisk),
        false => Ok(plan),
    }
}

async fn quiesce_and_begin(
    jobs: &Jobs,
    request: &BackupRequest,
    domain: &Arc<dyn Domain>,
    plan: &BackupPlan,
    aborted: &AbortSignal,
) -> Result<(), BackupError> {
    let volumes = serde_json::to_string(&plan.volumes).unwrap_or_default();
    jobs.change_backup(|record| {
        record.checkpoint_name = request.checkpoint();
        record.volumes = volumes;
        if request.skip_quiesce() {
            record.quiesce_status = QUIESCE_SKIPPED.into();
        }
    });
    let freeze_result = match request.skip_quiesce() {
        true => None,
        false => freeze(jobs, request).await,
    };
    let begin_result = match require_not_aborted(aborted) {
        Ok(()) => begin(&jobs.context, domain, plan).await,
        Err(error) => Err(error),
    };
    if let Some(frozen) = freeze_result
        && !end_freeze(jobs, frozen).await
    {
        tracing::warn!("{THAWED_EARLY}");
        jobs.change_backup(|record| {
            record.quiesce_status = QUIESCE_FAILED.into();
            record.backup_msg = THAWED_EARLY.into();
        });
    }
    begin_result
}

/// Freezes the guest; `None` if it cannot be frozen. It is then backed up without a freeze.
async fn freeze(jobs: &Jobs, request: &BackupRequest) -> Option<Change> {
    let freeze = FreezeRequest {
        thaw_after: Some(SAFETY_THAW_DELAY),
        persistent_tpm: request.persistent_tpm(),
    };
    match jobs.context.freezer.freeze(freeze).await {
        Ok(change) => {
            jobs.change_backup(|record| record.quiesce_status = QUIESCE_SUCCEEDED.into());
            Some(change)
        }
        Err(error) => {
            tracing::warn!(reason = %error, "the guest cannot be frozen for a backup");
            jobs.change_backup(|record| {
                record.quiesce_status = QUIESCE_FAILED.into();
                record.backup_msg = error.to_string();
            });
            None
        }
    }
}

/// Thaws the guest if the backup froze it; a guest that another client froze before stays frozen. Returns whether the
/// guest was still frozen when the backup had begun.
async fn end_freeze(jobs: &Jobs, frozen: Change) -> bool {
    let freezer = &jobs.context.freezer;
    let was_frozen = match frozen {
        Change::Done => freezer.thaw().await.map(|thawed| thawed == Change::Done),
        Change::None => freezer.is_frozen().await,
        Change::NothingToFreeze => Ok(true),
    };
    was_frozen.unwrap_or_else(|error| {
        tracing::warn!(reason = %error, "the guest could not be thawed, or asked, after a backup's start");
        true
    })
}

async fn begin(
    context: &JobContext,
    domain: &Arc<dyn Domain>,
    plan: &BackupPlan,
) -> Result<(), BackupError> {
    let (backup, checkpoint) = (plan.backup_xml.clone(), plan.checkpoint_xml.clone());
    tracing::debug!(backup, checkpoint, "beginning a backup");
    let begin = move |domain: &dyn Domain| domain.begin_backup(&backup, &checkpoint);
    let begin_result = context
        .client
        .on(domain, "beginning a backup", START, begin)
        .await;
    if begin_result
        .as_ref()
        .is_err_and(|error| !error.is_definite())
    {
        // The backup may have begun after the timeout, and nothing else would end it.
        let abort = |domain: &dyn Domain| domain.abort_job();
        let aborted = context
            .client
            .on(domain, "aborting a backup", START, abort)
            .await;
        if let Err(error) = aborted {
            tracing::debug!(reason = %error, "there is no backup to abort");
        }
    }
    Ok(begin_result?)
}

/// Returns an error if the job was aborted.
fn require_not_aborted(aborted: &AbortSignal) -> Result<(), BackupError> {
    match *aborted.borrow() {
        Some(reason) => Err(BackupError::Aborted(reason)),
        None => Ok(()),
    }
}

async fn create_directory(directory: PathBuf) -> Result<(), BackupError> {
    let path = directory.clone();
    let create = move || {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
    };
    let created = blocking::file_call(
        "making the directory of a backup",
        DIRECTORY_TIMEOUT,
        create,
    )
    .await?;
    created.map_err(|reason| BackupError::Directory {
        path: directory,
        reason: reason.to_string(),
    })
}

/// Removes the directory of a failed backup. If that fails, it is only logged.
async fn remove_directory(directory: PathBuf) {
    let path = directory.clone();
    let remove = move || remove_all(&path);
    let removed =
        blocking::file_call("removing the directory of a backup", REMOVE_TIMEOUT, remove).await;
    let reason = match removed {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(directory = %directory.display(), reason, "the directory of a failed backup stays");
}

fn remove_all(directory: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes QEMU's socket, which QEMU removes itself unless it was killed.
async fn remove_socket(socket: PathBuf) {
    let remove = move || fs::remove_file(socket);
    if let Ok(Ok(())) =
        blocking::file_call("removing a backup's socket", DIRECTORY_TIMEOUT, remove).await
    {
        tracing::debug!("removed the socket of a backup");
    }
}

// Watches a running backup: its progress, its end, and requests to abort it.
//
// The state is polled, because libvirt's event of the end is lost when the daemon restarts. The event only triggers
// the next query at once.

/// How often libvirt is asked whether the backup is still running.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The state of the backup, according to libvirt.
enum BackupState {
    Running(JobStats),
    Ended(BackupEnd),
    /// libvirt gives no answer; the next query may succeed.
    NoAnswer,
}

/// Waits until the backup has ended. There is no deadline, because the duration depends on the disks, and in pull mode
/// on the client that reads them.
async fn watch_backup(
    context: Arc<JobContext>,
    domain: Arc<dyn Domain>,
    mode: Mode,
    mut aborted: AbortSignal,
) -> BackupEnd {
    let mut ticks = interval(POLL_INTERVAL.min(context.progress.report_interval));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut progress = Progress::new();
    let stall_timeout = context.progress.stall_timeout;
    let (mut is_aborting, mut stalled_at) = (false, None::<Instant>);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = context.job_events.changed() => {}
            reason = wait_for_abort(&mut aborted), if !is_aborting => {
                tracing::info!(%reason, "aborting the backup");
                is_aborting = true;
            }
        }
        match query(&context, &domain).await {
            BackupState::Ended(end) if stalled_at.is_some() => {
                return after_stall(end, stall_timeout);
            }
            BackupState::Ended(end) => return end,
            // libvirt may hang because of a QEMU that was killed.
            BackupState::NoAnswer if context.job_events.has_qemu_exited() => {
                return BackupEnd::Unknown;
            }
            // Aborts and their timeouts do not depend on the statistics.
            BackupState::NoAnswer => {}
            BackupState::Running(stats) => {
                progress.observe(&stats, context.progress.report_interval)
            }
        }
        if mode == Mode::Push
            && stalled_at.is_none()
            && progress.last_progress.elapsed() >= stall_timeout
        {
            tracing::warn!("aborting the backup: nothing was written for {stall_timeout:?}");
            stalled_at = Some(Instant::now());
        }
        if is_aborting || stalled_at.is_some() {
            abort(&context, &domain).await;
        }
        if stalled_at.is_some_and(|stalled_at| stalled_at.elapsed() >= stall_timeout) {
            return BackupEnd::Abandoned(JobError::NoProgress(stall_timeout).to_string());
        }
    }
}

/// The end of a backup that was aborted because nothing was written. It may have completed despite the abort.
fn after_stall(end: BackupEnd, stall_timeout: Duration) -> BackupEnd {
    match end {
        BackupEnd::Job(job) if job.stats.job_type == JobType::Completed => BackupEnd::Job(job),
        _ => BackupEnd::Stalled(JobError::NoProgress(stall_timeout).to_string()),
    }
}

async fn query(context: &JobContext, domain: &Arc<dyn Domain>) -> BackupState {
    let stats = |domain: &dyn Domain| {
        let stats = domain.job_stats()?;
        let require_running =
            stats.operation == JobOperation::Backup && stats.job_type != JobType::None;
        Ok(match require_running {
            true => Ok(stats),
            false => Err(domain.completed_job()?),
        })
    };
    let stats = context
        .client
        .on(domain, "asking for a backup's progress", QUICK, stats);
    match stats.await {
        Ok(Ok(stats)) => BackupState::Running(stats),
        Ok(Err(job)) => BackupState::Ended(end(job)),
        Err(CallError::Libvirt(error)) if error.is_no_domain() || error.is_operation_invalid() => {
            BackupState::Ended(end_of_completed_job(context, domain).await)
        }
        Err(error) => {
            tracing::debug!(reason = %error, "no progress of the backup is known");
            BackupState::NoAnswer
        }
    }
}

/// The end of a backup whose VM has ended, if libvirt still knows it.
async fn end_of_completed_job(context: &JobContext, domain: &Arc<dyn Domain>) -> BackupEnd {
    let completed = |domain: &dyn Domain| domain.completed_job();
    let completed = context
        .client
        .on(domain, "asking how a backup ended", QUICK, completed);
    completed.await.map_or(BackupEnd::Unknown, end)
}

/// Converts libvirt's completed job; it may be another job than the backup.
fn end(job: CompletedJob) -> BackupEnd {
    match (job.stats.operation, job.stats.job_type) {
        (_, JobType::None) => BackupEnd::Unknown,
        (JobOperation::Backup, _) => BackupEnd::Job(Box::new(job)),
        _ => BackupEnd::Unknown,
    }
}

async fn abort(context: &JobContext, domain: &Arc<dyn Domain>) {
    let abort = |domain: &dyn Domain| domain.abort_job();
    let aborted = context
        .client
        .on(domain, "aborting a backup", COMMAND, abort);
    if let Err(error) = aborted.await {
        tracing::warn!(reason = %error, "libvirt does not abort the backup; the request is repeated");
    }
}

/// The progress of the backup.
struct Progress {
    processed: Option<u64>,
    /// When `processed` last grew.
    last_progress: Instant,
    /// When the progress was last logged.
    last_log: Instant,
}

impl Progress {
    fn new() -> Progress {
        Progress {
            processed: None,
            last_progress: Instant::now(),
            last_log: Instant::now(),
        }
    }

    fn observe(&mut self, stats: &JobStats, interval: Duration) {
        if stats.data_processed > self.processed {
            (self.processed, self.last_progress) = (stats.data_processed, Instant::now());
        }
        if self.last_log.elapsed() >= interval {
            self.last_log = Instant::now();
            tracing::info!(
                bytes = stats.data_processed,
                total = stats.data_total,
                "backing up the disks"
            );
        }
    }
}

#[cfg(test)]
mod tests;
