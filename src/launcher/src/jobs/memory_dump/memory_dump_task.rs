//! The task of a memory dump: it prepares the directory, dumps, reports progress and aborts.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libvirt::{Domain, JobStats};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{MemoryDumpRequest, dump_directory, is_dump, libvirt_iohelper};
use crate::blocking;
use crate::jobs::{
    AbortSignal, JobConnection, JobContext, JobError, ProgressTimes, domain_call, wait_for_abort,
};

/// Timeout of queries.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of removing files: they may have many gigabytes and be on slow storage.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait until virt-handler has accepted the notification that a dump begins.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for the end of an aborted dump. After that its failure is recorded anyway.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an abort looks for the I/O helper, which may still be starting.
const KILL_HELPER_INTERVAL: Duration = Duration::from_millis(100);

type DumpResult = oneshot::Receiver<libvirt::Result<()>>;

/// Dumps the guest's memory, without a deadline.
pub(in crate::jobs) async fn run(
    context: Arc<JobContext>,
    request: MemoryDumpRequest,
    mut aborted: AbortSignal,
) -> Result<(), JobError> {
    let started = Instant::now();
    tracing::info!(path = request.path(), "starting a memory dump");
    let connection = tokio::select! {
        biased;
        reason = wait_for_abort(&mut aborted) => Err(JobError::Aborted(reason)),
        connection = prepare(&context, &request) => connection,
    };
    let result = match connection {
        Ok(connection) => dump(&connection.domain, &request, context.progress, aborted).await,
        Err(error) => Err(error),
    };
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &result {
        Ok(()) => tracing::info!(path = request.path(), millis, "the memory dump is complete"),
        Err(error) => {
            tracing::error!(path = request.path(), millis, reason = %error, "the memory dump failed");
        }
    }
    result
}

async fn prepare(
    context: &JobContext,
    request: &MemoryDumpRequest,
) -> Result<JobConnection, JobError> {
    let connection = context.open().await?;
    // The record must be published before the guest is paused, which it explains, and before a failure.
    if tokio::time::timeout(PUBLISH_TIMEOUT, context.recorder.all_published())
        .await
        .is_err()
    {
        tracing::debug!("virt-handler was not notified of the memory dump yet");
    }
    let directory = request.directory().to_owned();
    blocking::file_call(
        "preparing the directory of a memory dump",
        REMOVE_TIMEOUT,
        move || dump_directory::prepare(&directory),
    )
    .await??;
    Ok(connection)
}

async fn dump(
    domain: &Arc<dyn Domain>,
    request: &MemoryDumpRequest,
    times: ProgressTimes,
    mut aborted: AbortSignal,
) -> Result<(), JobError> {
    let mut dumped = spawn_dump(domain, request.path())?;
    let error = tokio::select! {
        result = &mut dumped => match (result, *aborted.borrow()) {
            (Ok(Ok(())), _) => return Ok(()),
            // The dump may have failed because an abort ended QEMU.
            (_, Some(reason)) => JobError::Aborted(reason),
            (Ok(Err(error)), None) => error.into(),
            (Err(_), None) => JobError::Internal,
        },
        reason = wait_for_abort(&mut aborted) => {
            if abort(domain, request, dumped).await {
                return Ok(());
            }
            JobError::Aborted(reason)
        }
        () = watch_progress(domain, times) => {
            abort(domain, request, dumped).await;
            JobError::NoProgress(times.stall_timeout)
        }
    };
    // Not awaited, because slow storage must not delay the record.
    tokio::spawn(remove_incomplete_dump(request.clone()));
    Err(error)
}

/// Starts libvirt's call on a thread of its own, because it may take hours and the pool's threads are for short calls.
fn spawn_dump(domain: &Arc<dyn Domain>, path: &str) -> Result<DumpResult, JobError> {
    let (done, dumped) = oneshot::channel();
    let (domain, path) = (Arc::clone(domain), path.to_owned());
    thread::Builder::new()
        .name("memory-dump".into())
        .spawn(move || drop(done.send(domain.core_dump_memory(&path))))
        .map_err(|_| JobError::Internal)?;
    Ok(dumped)
}

/// Logs the progress. Returns when there was none for the stall timeout.
async fn watch_progress(domain: &Arc<dyn Domain>, times: ProgressTimes) {
    let mut ticks = interval_at(
        Instant::now() + times.report_interval,
        times.report_interval,
    );
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut last_progress) = (None, Instant::now());
    loop {
        ticks.tick().await;
        let processed = progress(domain).await.and_then(|stats| {
            tracing::info!(
                percent = stats.memory_percent(),
                bytes = stats.memory_processed,
                "dumping the guest's memory"
            );
            stats.memory_processed
        });
        if processed > last {
            (last, last_progress) = (processed, Instant::now());
        } else if last_progress.elapsed() >= times.stall_timeout {
            return;
        }
    }
}

async fn progress(domain: &Arc<dyn Domain>) -> Option<JobStats> {
    let what = "asking for a job's progress";
    match domain_call(domain, what, QUERY_TIMEOUT, |domain| domain.job_stats()).await {
        Ok(stats) => Some(stats),
        Err(error) => {
            tracing::debug!(reason = %error, "no progress of the memory dump is known");
            None
        }
    }
}

/// Aborts the dump. Returns true if the dump was already complete.
async fn abort(
    domain: &Arc<dyn Domain>,
    request: &MemoryDumpRequest,
    mut dumped: DumpResult,
) -> bool {
    let aborting = Arc::clone(domain);
    // In a task of its own, because a hung daemon must not keep the I/O helper from being killed.
    tokio::spawn(async move {
        let abort = |domain: &dyn Domain| domain.abort_job();
        let aborted =
            domain_call(&aborting, "aborting the memory dump", ABORT_TIMEOUT, abort).await;
        if let Err(error) = aborted {
            tracing::debug!(reason = %error, "libvirt does not abort the memory dump");
        }
    });
    let deadline = Instant::now() + ABORT_TIMEOUT;
    while Instant::now() < deadline {
        kill_helper(request).await;
        if let Ok(result) = tokio::time::timeout(KILL_HELPER_INTERVAL, &mut dumped).await {
            return matches!(result, Ok(Ok(())));
        }
    }
    tracing::warn!("the aborted memory dump did not end within {ABORT_TIMEOUT:?}");
    false
}

async fn kill_helper(request: &MemoryDumpRequest) {
    let path = request.path().to_owned();
    let killed = blocking::call(
        "looking for libvirt's I/O helper",
        QUERY_TIMEOUT,
        move || libvirt_iohelper::kill(&path),
    );
    if killed.await.is_ok_and(|killed| killed) {
        tracing::info!("ended libvirt's I/O helper of the memory dump");
    }
}

/// Removes the file of a failed dump. libvirt removes it itself, unless its daemon was killed meanwhile.
async fn remove_incomplete_dump(request: MemoryDumpRequest) {
    kill_helper(&request).await;
    if !is_dump(&request.name) {
        return;
    }
    let path = request.path().to_owned();
    let removed = blocking::file_call(
        "removing an incomplete memory dump",
        REMOVE_TIMEOUT,
        move || std::fs::remove_file(path),
    );
    if matches!(removed.await, Ok(Ok(()))) {
        tracing::info!(path = request.path(), "removed an incomplete memory dump");
    }
}
