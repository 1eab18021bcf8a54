//! Jobs: work on the domain that outlasts the command that starts it.
//!
//! ```text
//!            start                     end, failure, abort
//!   [idle] ────────▶ [running: kind] ──────────────────────▶ [idle], the record is complete
//! ```
//! libvirt runs one job of a domain at a time, and so does [`Jobs`]. [`Jobs::start`] returns at once;
//! the job's own task reports progress, obeys [`Jobs::abort`] and completes the record, which is part of
//! the notifications to virt-handler. Every record is completed, also when the task panics.

mod error;
mod memory_dump;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kubevirt_api::metadata::MemoryDump;
use tokio::sync::watch;

pub(crate) use error::{AbortReason, JobError};
pub(crate) use memory_dump::MemoryDumpRequest;

use crate::libvirt_client::Connect;
use crate::timestamp;

/// For the end of an aborted job; the job's own timeouts are shorter.
const ABORT_TIMEOUT: Duration = Duration::from_secs(8);

/// Keeps the records of jobs and publishes them to virt-handler.
pub trait JobRecorder: Send + Sync {
    /// Replaces the record of the memory dump.
    fn set_memory_dump(&self, record: MemoryDump);

    /// Resolves when the current records were sent to virt-handler.
    fn all_published(&self) -> BoxFuture<'_, ()>;
}

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// The guest's memory is written to a file.
    MemoryDump,
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobKind::MemoryDump => "a memory dump",
        })
    }
}

/// A job to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobRequest {
    /// Write the guest's memory to a file.
    MemoryDump(MemoryDumpRequest),
}

impl JobRequest {
    /// The kind of the job.
    pub fn kind(&self) -> JobKind {
        match self {
            JobRequest::MemoryDump(_) => JobKind::MemoryDump,
        }
    }
}

/// What became of a request to start a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStart {
    /// The job runs.
    Started,
    /// One of the same kind runs; the request has no effect.
    AlreadyRunning,
    /// The last job of this kind was the same one; the request has no effect.
    AlreadyDone,
    /// A job of another kind runs.
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
    /// Keeps the records.
    pub recorder: Arc<dyn JobRecorder>,
    /// How progress is watched.
    pub progress: ProgressTimes,
}

/// Runs the domain's jobs, one at a time. Clones are the same runner.
#[derive(Clone)]
pub struct Jobs {
    context: Arc<JobContext>,
    state: Arc<Mutex<State>>,
    running: watch::Sender<Option<JobKind>>,
}

#[derive(Default)]
struct State {
    abort: Option<watch::Sender<Option<AbortReason>>>,
    memory_dump: Option<MemoryDump>,
}

impl Jobs {
    /// No job runs yet.
    pub fn new(context: JobContext) -> Jobs {
        Jobs {
            context: Arc::new(context),
            state: Arc::default(),
            running: watch::Sender::new(None),
        }
    }

    /// Starts a job, unless one runs or it was the last one of its kind.
    pub fn start(&self, request: JobRequest) -> JobStart {
        let mut state = self.lock();
        let kind = request.kind();
        match *self.running.borrow() {
            Some(running) if running == kind => return JobStart::AlreadyRunning,
            Some(running) => return JobStart::Busy(running),
            None => {}
        }
        let JobRequest::MemoryDump(request) = request;
        if request.is_recorded_in(state.memory_dump.as_ref()) {
            return JobStart::AlreadyDone;
        }
        let (abort, aborted) = watch::channel(None);
        state.abort = Some(abort);
        self.running.send_replace(Some(kind));
        let record = memory_dump::begin(&request, timestamp::now());
        self.record(&mut state, record);
        tokio::spawn(self.clone().run_memory_dump(request, aborted));
        JobStart::Started
    }

    /// Asks the running job to end; returns at once. The first reason counts.
    pub fn abort(&self, reason: AbortReason) {
        if let Some(abort) = &self.lock().abort {
            abort.send_if_modified(|aborted| {
                let is_first = aborted.is_none();
                aborted.get_or_insert(reason);
                is_first
            });
        }
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

    async fn run_memory_dump(
        self,
        request: MemoryDumpRequest,
        aborted: watch::Receiver<Option<AbortReason>>,
    ) {
        let job = memory_dump::run(Arc::clone(&self.context), request, aborted);
        // A separate task, so that a panic in the job ends only the job.
        let result = tokio::spawn(job).await.unwrap_or(Err(JobError::Fault));
        let mut state = self.lock();
        let begun = state.memory_dump.take().unwrap_or_default();
        let record = memory_dump::complete(begun, timestamp::now(), result);
        self.record(&mut state, record);
        state.abort = None;
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
