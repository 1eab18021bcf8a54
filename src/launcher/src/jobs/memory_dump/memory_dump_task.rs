//! The task of a memory dump: prepares, dumps, reports progress, aborts.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libvirt::{Domain, JobStats};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{MemoryDumpRequest, dump_directory, io_helper, is_dump};
use crate::blocking;
use crate::jobs::{
    AbortSignal, JobConnection, JobContext, JobError, ProgressTimes, abort_reason, domain_call,
};

/// Connecting, looking up, asking for progress.
const QUICK: Duration = Duration::from_secs(10);
/// Removing files of many gigabytes on slow storage.
const REMOVE: Duration = Duration::from_secs(60);
/// virt-handler has this long to accept the notification that a dump begins.
const PUBLISHED: Duration = Duration::from_secs(2);
/// An aborted dump has this long to end; after that its failure is recorded anyway.
const ABORT: Duration = Duration::from_secs(5);
/// The I/O helper may only just be starting.
const KILL_HELPER: Duration = Duration::from_millis(100);

type DumpResult = oneshot::Receiver<libvirt::Result<()>>;

/// Makes the dump, without a deadline.
pub(in crate::jobs) async fn run(
    context: Arc<JobContext>,
    request: MemoryDumpRequest,
    mut aborted: AbortSignal,
) -> Result<(), JobError> {
    let started = Instant::now();
    tracing::info!(path = request.path(), "starting a memory dump");
    let connection = tokio::select! {
        biased;
        reason = abort_reason(&mut aborted) => Err(JobError::Aborted(reason)),
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
    // The record is published before the pause that it explains, and before a failure.
    if tokio::time::timeout(PUBLISHED, context.recorder.all_published())
        .await
        .is_err()
    {
        tracing::debug!("virt-handler was not notified of the memory dump yet");
    }
    let to = request.directory().to_owned();
    blocking::file_call(
        "preparing the directory of a memory dump",
        REMOVE,
        move || dump_directory::prepare(&to),
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
    let why = tokio::select! {
        result = &mut dumped => match (result, *aborted.borrow()) {
            (Ok(Ok(())), _) => return Ok(()),
            // The abort may have come first and ended QEMU.
            (_, Some(reason)) => JobError::Aborted(reason),
            (Ok(Err(error)), None) => error.into(),
            (Err(_), None) => JobError::Fault,
        },
        reason = abort_reason(&mut aborted) => {
            if abort(domain, request, dumped).await {
                return Ok(());
            }
            JobError::Aborted(reason)
        }
        () = report(domain, times) => {
            abort(domain, request, dumped).await;
            JobError::Stalled(times.stall)
        }
    };
    // Not awaited: slow storage must not delay the record.
    tokio::spawn(discard(request.clone()));
    Err(why)
}

/// Dumps on a thread of its own: the call may take hours, and the pool's threads are for short calls.
fn spawn_dump(domain: &Arc<dyn Domain>, path: &str) -> Result<DumpResult, JobError> {
    let (done, dumped) = oneshot::channel();
    let (domain, path) = (Arc::clone(domain), path.to_owned());
    thread::Builder::new()
        .name("memory-dump".into())
        .spawn(move || drop(done.send(domain.core_dump_memory(&path))))
        .map_err(|_| JobError::Fault)?;
    Ok(dumped)
}

/// Logs the progress; returns when there is none any more.
async fn report(domain: &Arc<dyn Domain>, times: ProgressTimes) {
    let mut ticks = interval_at(Instant::now() + times.report, times.report);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut since) = (None, Instant::now());
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
            (last, since) = (processed, Instant::now());
        } else if since.elapsed() >= times.stall {
            return;
        }
    }
}

async fn progress(domain: &Arc<dyn Domain>) -> Option<JobStats> {
    let what = "asking for a job's progress";
    match domain_call(domain, what, QUICK, |domain| domain.job_stats()).await {
        Ok(stats) => Some(stats),
        Err(error) => {
            tracing::debug!(reason = %error, "no progress of the memory dump is known");
            None
        }
    }
}

/// Aborts the dump; true when the dump was complete already.
async fn abort(
    domain: &Arc<dyn Domain>,
    request: &MemoryDumpRequest,
    mut dumped: DumpResult,
) -> bool {
    let aborting = Arc::clone(domain);
    // In a task of its own: a hung daemon must not keep the I/O helper alive.
    tokio::spawn(async move {
        let abort = |domain: &dyn Domain| domain.abort_job();
        let aborted = domain_call(&aborting, "aborting the memory dump", ABORT, abort).await;
        if let Err(error) = aborted {
            tracing::debug!(reason = %error, "libvirt does not abort the memory dump");
        }
    });
    let give_up = Instant::now() + ABORT;
    while Instant::now() < give_up {
        kill_helper(request).await;
        if let Ok(result) = tokio::time::timeout(KILL_HELPER, &mut dumped).await {
            return matches!(result, Ok(Ok(())));
        }
    }
    tracing::warn!("the aborted memory dump did not end within {ABORT:?}");
    false
}

async fn kill_helper(request: &MemoryDumpRequest) {
    let path = request.path().to_owned();
    let killed = blocking::call("looking for libvirt's I/O helper", QUICK, move || {
        io_helper::kill(&path)
    });
    if killed.await.is_ok_and(|killed| killed) {
        tracing::info!("ended libvirt's I/O helper of the memory dump");
    }
}

/// libvirt removes an incomplete file itself, unless its daemon was killed meanwhile.
async fn discard(request: MemoryDumpRequest) {
    kill_helper(&request).await;
    if !is_dump(&request.name) {
        return;
    }
    let path = request.path().to_owned();
    let removed = blocking::file_call("removing an incomplete memory dump", REMOVE, move || {
        std::fs::remove_file(path)
    });
    if matches!(removed.await, Ok(Ok(()))) {
        tracing::info!(path = request.path(), "removed an incomplete memory dump");
    }
}
