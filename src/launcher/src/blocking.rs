//! Runs blocking calls off the async workers, each with a deadline.
//!
//! ```text
//!   calls to libvirt, reconnecting ──▶ lanes, threads of their own
//!   files ──▶ at most 12 at once ──┐
//!   hooks ─────────────────────────┴▶ the runtime's threads
//! ```
//! A file system that hangs occupies only the threads for files, and does not delay calls to libvirt and hooks. A call
//! that has not begun when its caller gives up never begins.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// Maximum number of the runtime's threads for blocking work. They are started on demand and end when they are idle.
pub const MAX_THREADS: usize = 16;
/// How many of these threads may be used for files. The others are for hooks.
const MAX_FILE_CALLS: usize = 12;

static FILE_CALL_PERMITS: Semaphore = Semaphore::const_new(MAX_FILE_CALLS);
/// For calls of jobs and others without a lane of their own. There are several threads, since a call that hangs keeps
/// its thread: a job can then still be polled and aborted.
static JOB_LANE: LazyLock<Lane> = LazyLock::new(|| Lane::new("libvirt-job", 8));
/// For opening connections to libvirt. An attempt that hangs keeps its thread until the daemon ends.
pub(crate) static CONNECT_LANE: LazyLock<Lane> = LazyLock::new(|| Lane::new("libvirt-connect", 4));

/// A blocking call gave no answer in time, or panicked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoAnswer {
    /// The call has timed out. Its result will be dropped; if it has not begun, it never will.
    #[error("{what} gave no answer within {deadline:?}")]
    Timeout {
        /// The operation.
        what: &'static str,
        /// How long the call could take.
        deadline: Duration,
    },
    /// The call was not begun: calls before it hang.
    #[error("{what} was not begun: too many calls that hang are before it")]
    TooManyWait {
        /// The operation.
        what: &'static str,
    },
    /// The call has panicked, which is a fault of the launcher.
    #[error("{what} failed inside the launcher; this is a fault of the launcher, please report it")]
    Panic {
        /// The operation.
        what: &'static str,
    },
}

/// Runs a blocking call that belongs to no lane of the client, such as one on a job's own connection to libvirt.
pub(crate) async fn call<T, F>(
    what: &'static str,
    deadline: Duration,
    work: F,
) -> Result<T, NoAnswer>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let work = in_current_span(work);
    JOB_LANE.call(what, deadline, work).await
}

/// Runs a call that uses files, which may be on a file system that hangs.
pub(crate) async fn file_call<T, F>(
    what: &'static str,
    deadline: Duration,
    work: F,
) -> Result<T, NoAnswer>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let work = in_current_span(work);
    let result = async {
        // Work that hangs keeps its permit. The semaphore is never closed.
        let permit = FILE_CALL_PERMITS.acquire().await.ok();
        let work = move || {
            let result = work();
            drop(permit);
            result
        };
        // Work that is still in the runtime's queue is removed when the caller gives up.
        AbortOnDropHandle::new(tokio::task::spawn_blocking(work)).await
    };
    match tokio::time::timeout(deadline, result).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err(NoAnswer::Panic { what }),
        Err(_) => Err(NoAnswer::Timeout { what, deadline }),
    }
}

/// Drops a value that may close a connection to libvirt, on another thread: closing blocks when the daemon hangs.
pub(crate) fn drop_connection<T: Send + 'static>(value: T) {
    JOB_LANE.push(Box::new(move || drop(value)));
}

fn in_current_span<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let span = tracing::Span::current();
    move || span.in_scope(work)
}

// Lanes: threads for one kind of blocking call.
//
// Each lane has a limited number of threads. Calls that hang in libvirt occupy only the threads of their lane, and do
// not delay calls in other lanes.

/// An idle thread ends after this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of calls that wait for a thread. A call whose caller has given up waits, too: its entry is small, but
/// virt-handler asks every few seconds for as long as libvirt hangs.
const MAX_WAITING: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// A limited number of threads with a queue. Threads are started on demand.
pub(crate) struct Lane(Arc<Threads>);

struct Threads {
    name: &'static str,
    limit: usize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

impl Lane {
    /// A lane of at most `limit` threads called `name`, of which Linux shows the first 15 bytes.
    pub(crate) fn new(name: &'static str, limit: usize) -> Lane {
        Lane(Arc::new(Threads {
            name,
            limit,
            state: Mutex::default(),
            wake: Condvar::new(),
        }))
    }

    /// Runs `work` and waits for its result for at most `deadline`, including the time until a thread is free. Work
    /// that has not begun when its caller gives up is skipped.
    pub(crate) async fn call<T, F>(
        &self,
        what: &'static str,
        deadline: Duration,
        work: F,
    ) -> Result<T, NoAnswer>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        if self.0.lock().waiting.len() >= MAX_WAITING {
            return Err(NoAnswer::TooManyWait { what });
        }
        self.push(Box::new(move || {
            if !answer.is_closed() {
                // If the caller has given up, this drops the result here, off the async workers.
                let _ = answer.send(work());
            }
        }));
        match tokio::time::timeout(deadline, answered).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(NoAnswer::Panic { what }),
            Err(_) => Err(NoAnswer::Timeout { what, deadline }),
        }
    }

    /// Queues a job without waiting for it.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.0.lock();
        state.waiting.push_back(job);
        if state.waiting.len() > state.idle && state.threads < self.0.limit {
            let threads = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name(self.0.name.to_owned());
            match thread.spawn(move || threads.run_jobs()) {
                Ok(_) => state.threads += 1,
                Err(error) => tracing::error!(reason = %error, "no new thread for libvirt calls"),
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_jobs(&self) {
        while let Some(job) = self.next() {
            // A panic drops the answer's sender, which the caller notices; the thread continues.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// Waits for the next job; `None` when there was none within [`IDLE_TIMEOUT`], so that the thread ends.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let waited = self.wake.wait_timeout(state, IDLE_TIMEOUT);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
