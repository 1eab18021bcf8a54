//! Blocking calls off the async workers, each with a deadline.
//!
//! ```text
//!   calls to libvirt, reconnecting ──▶ lanes, threads of their own
//!   files ──▶ at most 12 at once ──┐
//!   hooks ─────────────────────────┴▶ the runtime's threads
//! ```
//! A file system that hangs occupies threads for files only: calls to libvirt and hooks do not wait for them. What has
//! not begun when its caller gives up never begins.

mod lane_threads;

use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use lane_threads::Lane;

/// The runtime's threads for blocking work. They are made on demand and leave soon.
pub const MAX_THREADS: usize = 16;
/// How many of them work on files. The others are for hooks.
const MAX_FILE_CALLS: usize = 12;

static FILE_CALLS: Semaphore = Semaphore::const_new(MAX_FILE_CALLS);
/// A hung call keeps its thread; a job polls libvirt, and wants to be aborted nevertheless.
static CALLS: LazyLock<Lane> = LazyLock::new(|| Lane::new("libvirt-job", 8));
/// For opening connections to libvirt. A hung attempt keeps its thread until the daemon ends.
pub(crate) static CONNECTING: LazyLock<Lane> = LazyLock::new(|| Lane::new("libvirt-connect", 4));

/// A blocking call gave no answer in time, or panicked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoAnswer {
    /// It is still busy, and its result is dropped; or it has not begun, and never does.
    #[error("{what} gave no answer within {deadline:?}")]
    Late {
        /// What was called.
        what: &'static str,
        /// How long it had.
        deadline: Duration,
    },
    /// It ended without an answer: the program has a fault there.
    #[error("{what} failed inside the launcher; this is a fault of the launcher, please report it")]
    Fault {
        /// What was called.
        what: &'static str,
    },
}

/// Runs a call to libvirt on a connection that has no lanes, such as a job's.
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
    CALLS.call(what, deadline, work).await
}

/// Works on files, which may lie on a file system that hangs.
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
    let called = async {
        // Work that hangs keeps its permit. The semaphore is never closed.
        let permit = FILE_CALLS.acquire().await.ok();
        let work = move || {
            let result = work();
            drop(permit);
            result
        };
        // Work in the runtime's queue is removed from there when the caller gives up.
        AbortOnDropHandle::new(tokio::task::spawn_blocking(work)).await
    };
    match tokio::time::timeout(deadline, called).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err(NoAnswer::Fault { what }),
        Err(_) => Err(NoAnswer::Late { what, deadline }),
    }
}

/// Drops a value that may close a connection to libvirt: that blocks when the daemon hangs.
pub(crate) fn drop_connection<T: Send + 'static>(value: T) {
    CALLS.push(Box::new(move || drop(value)));
}

fn in_current_span<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let span = tracing::Span::current();
    move || span.in_scope(work)
}

#[cfg(test)]
mod tests;
