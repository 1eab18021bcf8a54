//! Watches a running backup: its progress, its end, and requests to abort it.
//!
//! libvirt's event of the end only makes the next query come at once: it is lost when the daemon is started again.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{CompletedJob, Domain, JobOperation, JobStats, JobType};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Mode;
use super::backup_metadata_rules::BackupEnd;
use crate::jobs::{AbortSignal, JobContext, JobError, abort_reason};
use crate::libvirt_client::{COMMAND, CallError, QUICK};

/// How often libvirt is asked whether the backup goes on.
const POLL: Duration = Duration::from_secs(2);

/// What libvirt says of the backup.
enum BackupState {
    Running(JobStats),
    Ended(BackupEnd),
    /// libvirt gives no answer; the next query may have one.
    NoAnswer,
}

/// Returns when the backup has ended, without a deadline: how long it takes depends on the disks, and in pull mode on
/// who reads them.
pub(super) async fn watch(
    context: Arc<JobContext>,
    domain: Arc<dyn Domain>,
    mode: Mode,
    mut aborted: AbortSignal,
) -> BackupEnd {
    let mut ticks = interval(POLL.min(context.progress.report));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut progress = Progress::new();
    let stall = context.progress.stall;
    let (mut is_aborting, mut stalled) = (false, None::<Instant>);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = context.job_events.changed() => {}
            reason = abort_reason(&mut aborted), if !is_aborting => {
                tracing::info!(%reason, "aborting the backup");
                is_aborting = true;
            }
        }
        match query(&context, &domain).await {
            BackupState::Ended(end) if stalled.is_some() => return after_stall(end, stall),
            BackupState::Ended(end) => return end,
            // libvirt may hang on a QEMU that was killed.
            BackupState::NoAnswer if context.job_events.has_qemu_ended() => {
                return BackupEnd::Unknown;
            }
            // Aborts and their time limits do not depend on the statistics.
            BackupState::NoAnswer => {}
            BackupState::Running(stats) => progress.observe(&stats, context.progress.report),
        }
        if mode == Mode::Push && stalled.is_none() && progress.since.elapsed() >= stall {
            tracing::warn!("aborting the backup: nothing was written for {stall:?}");
            stalled = Some(Instant::now());
        }
        if is_aborting || stalled.is_some() {
            abort(&context, &domain).await;
        }
        if stalled.is_some_and(|since| since.elapsed() >= stall) {
            return BackupEnd::Abandoned(JobError::Stalled(stall).to_string());
        }
    }
}

/// The end of a backup that was aborted because nothing was written, unless it completed all the same.
fn after_stall(end: BackupEnd, stall: Duration) -> BackupEnd {
    match end {
        BackupEnd::Job(job) if job.stats.job_type == JobType::Completed => BackupEnd::Job(job),
        _ => BackupEnd::Stalled(JobError::Stalled(stall).to_string()),
    }
}

async fn query(context: &JobContext, domain: &Arc<dyn Domain>) -> BackupState {
    let stats = |domain: &dyn Domain| {
        let stats = domain.job_stats()?;
        let is_running = stats.operation == JobOperation::Backup && stats.job_type != JobType::None;
        Ok(match is_running {
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
            BackupState::Ended(completed(context, domain).await)
        }
        Err(error) => {
            tracing::debug!(reason = %error, "no progress of the backup is known");
            BackupState::NoAnswer
        }
    }
}

/// The end of a backup whose VM has ended.
async fn completed(context: &JobContext, domain: &Arc<dyn Domain>) -> BackupEnd {
    let completed = |domain: &dyn Domain| domain.completed_job();
    let completed = context
        .client
        .on(domain, "asking how a backup ended", QUICK, completed);
    completed.await.map_or(BackupEnd::Unknown, end)
}

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

struct Progress {
    processed: Option<u64>,
    since: Instant,
    reported: Instant,
}

impl Progress {
    fn new() -> Progress {
        Progress {
            processed: None,
            since: Instant::now(),
            reported: Instant::now(),
        }
    }

    fn observe(&mut self, stats: &JobStats, interval: Duration) {
        if stats.data_processed > self.processed {
            (self.processed, self.since) = (stats.data_processed, Instant::now());
        }
        if self.reported.elapsed() >= interval {
            self.reported = Instant::now();
            tracing::info!(
                bytes = stats.data_processed,
                total = stats.data_total,
                "backing up the disks"
            );
        }
    }
}
