//! Runs blocking calls off the async workers, each with a deadline.
//!
//! ```text
//!   calls to libvirt, reconnecting ──▶ lanes, threads of their own
//!   files ──▶ at most 12 at once ──┐
//!   hooks ─────────────────────────┴▶ the runtime's threads
//! ```
//! A file system that hangs occupies only the threads for files, and does not delay calls to libvirt and hooks. A call
//! that has not begun when its caller gives up never begins.

mod lane_threads;

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use lane_threads::Lane;

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

#[cfg(test)]
mod tests;
