//! Watches a running backup: its progress, its end, and requests to abort it.
//!
//! The state is polled, because libvirt's event of the end is lost when the daemon restarts. The event only triggers
//! the next query at once.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{CompletedJob, Domain, JobOperation, JobStats, JobType};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Mode;
use super::backup_metadata_rules::BackupEnd;
use crate::jobs::{AbortSignal, JobContext, JobError, wait_for_abort};
use crate::libvirt_client::{COMMAND, CallError, QUICK};

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
pub(super) async fn watch(
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
