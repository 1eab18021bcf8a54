//! Memory dumps: the request and the record, which are pure; [`memory_dump_task`] makes a dump.
//!
//! virt-handler repeats its request until a notification says that the dump with that file name has ended. A request
//! for the file name of the last dump therefore has no effect, whether that dump succeeded or failed.

use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io, thread};

use kubevirt_api::domain_metadata::MemoryDump;
use libvirt::{Domain, JobStats};
use rustix::fs::{Access, access};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::JobError;
use crate::jobs::{
    AbortSignal, JobConnection, JobContext, ProgressTimes, domain_call, wait_for_abort,
};
use crate::{blocking, kill_by_command_line};

/// Maximum length of a path, and of a file name, that Linux accepts, in bytes.
const MAX_PATH_BYTES: usize = 4095;
const MAX_NAME_BYTES: usize = 255;
/// The part by which the file names of dumps are recognized.
const DUMP_NAME_PART: &str = "memory.dump";

/// Why a path cannot be that of a memory dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DumpPathError {
    /// The path is empty, relative, ends in a directory, or contains `.` or `..`.
    #[error("the path of a memory dump is to be absolute, name a file and contain no '..'")]
    NotAFile,
    /// The path or its file name is too long, or the path contains a NUL byte.
    #[error(
        "the path of a memory dump has at most {MAX_PATH_BYTES} bytes, its file name at most \
         {MAX_NAME_BYTES}, and no NUL byte"
    )]
    Unusable,
}

/// A request for a memory dump, validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryDumpRequest {
    path: String,
    name: String,
}

impl MemoryDumpRequest {
    /// A request for a dump to this path, which virt-handler chooses.
    ///
    /// # Errors
    /// [`DumpPathError`] if no file can have this path.
    pub fn new(path: &str) -> Result<MemoryDumpRequest, DumpPathError> {
        if path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err(DumpPathError::Unusable);
        }
        let mut components = Path::new(path).components();
        let Some(Component::Normal(name)) = components.next_back() else {
            return Err(DumpPathError::NotAFile);
        };
        let is_absolute = components.next() == Some(Component::RootDir);
        let is_plain = components.all(|part| matches!(part, Component::Normal(_)));
        // `Path` ignores "/." and "/" at the end; libvirt does not.
        let name = name.to_string_lossy().into_owned();
        if !is_absolute || !is_plain || !path.ends_with(&format!("/{name}")) {
            return Err(DumpPathError::NotAFile);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(DumpPathError::Unusable);
        }
        Ok(MemoryDumpRequest {
            path: path.to_owned(),
            name,
        })
    }

    /// The path of the dump's file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The directory of the dump.
    pub fn directory(&self) -> &Path {
        Path::new(&self.path).parent().unwrap_or(Path::new("/"))
    }

    /// Whether the last dump had the same file name.
    pub(super) fn is_recorded_in(&self, last: Option<&MemoryDump>) -> bool {
        last.is_some_and(|last| last.file_name == self.name)
    }
}

/// The record of a dump that begins.
pub(super) fn begin(request: &MemoryDumpRequest, now: String) -> MemoryDump {
    MemoryDump {
        file_name: request.name.clone(),
        start_timestamp: Some(now),
        ..MemoryDump::default()
    }
}

/// The record of a dump that has ended. A failed dump is also complete: virt-handler waits for completion.
pub(super) fn complete(
    started_record: MemoryDump,
    now: String,
    result: Result<(), JobError>,
) -> MemoryDump {
    let failure_reason = result
        .err()
        .map(|error| format!("Domain memory dump failed: {error}"));
    MemoryDump {
        end_timestamp: Some(now),
        completed: true,
        failed: failure_reason.is_some(),
        failure_reason: failure_reason.unwrap_or_default(),
        ..started_record
    }
}

/// Whether a file with this name is a memory dump.
fn is_dump(name: &str) -> bool {
    name.contains(DUMP_NAME_PART)
}

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
pub(super) async fn run(
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
        move || prepare_directory(&directory),
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
        move || kill_iohelper(&path),
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
        move || fs::remove_file(path),
    );
    if matches!(removed.await, Ok(Ok(()))) {
        tracing::info!(path = request.path(), "removed an incomplete memory dump");
    }
}

/// Checks the directory, and removes earlier dumps from it. Blocking.
fn prepare_directory(directory: &Path) -> Result<(), JobError> {
    let unusable = |reason: io::Error| JobError::Directory {
        path: directory.to_owned(),
        reason: reason.to_string(),
    };
    if !fs::metadata(directory).map_err(unusable)?.is_dir() {
        return Err(unusable(io::ErrorKind::NotADirectory.into()));
    }
    // Checked first, so that the guest is not paused for a dump that cannot succeed.
    access(directory, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| unusable(error.into()))?;
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(reason = %error, directory = %directory.display(), "could not look for earlier memory dumps");
            return Ok(());
        }
    };
    for entry in entries.filter_map(Result::ok) {
        if let Err(error) = remove_dump(&entry) {
            tracing::warn!(reason = %error, path = %entry.path().display(), "could not remove an earlier memory dump");
        }
    }
    Ok(())
}

/// Removes the file if it is a dump.
fn remove_dump(entry: &fs::DirEntry) -> io::Result<()> {
    if is_dump(&entry.file_name().to_string_lossy()) && !entry.file_type()?.is_dir() {
        tracing::info!(path = %entry.path().display(), "removing an earlier memory dump");
        fs::remove_file(entry.path())?;
    }
    Ok(())
}

// libvirt's I/O helper: the process that writes a memory dump to its file.
//
// libvirt cannot abort a memory dump, because QEMU has no command for that. But QEMU writes into a pipe which
// `libvirt_iohelper PATH` reads. When that process ends, QEMU's next write fails; libvirt then ends the dump with an
// error, removes the file and resumes the guest.

const HELPER_PROGRAM: &str = "libvirt_iohelper";

/// Kills the helpers that write to `path`. Returns whether there was one. Blocking.
fn kill_iohelper(path: &str) -> bool {
    kill_by_command_line::kill_matching(|command_line| is_command_of_helper(command_line, path)) > 0
}

/// Whether this is the command line of the helper for `path`: `/usr/lib/libvirt/libvirt_iohelper\0PATH\01\0`.
fn is_command_of_helper(command_line: &[u8], path: &str) -> bool {
    let mut arguments = command_line.split(|byte| *byte == 0);
    let program = arguments
        .next()
        .and_then(|first| str::from_utf8(first).ok());
    let program = program.and_then(|first| Path::new(first).file_name());
    program.is_some_and(|name| name == HELPER_PROGRAM) && arguments.next() == Some(path.as_bytes())
}

#[cfg(test)]
mod tests;
