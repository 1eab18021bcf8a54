//! A deadline for work that may hang.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The result of `work`, whose thread ends with the process if it is too late.
pub(super) fn within<T: Send + 'static>(
    deadline: Duration,
    missing: &str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (done, waiting) = mpsc::channel();
    thread::spawn(move || {
        // Nobody waits any more when it is too late.
        let _ = done.send(work());
    });
    waiting
        .recv_timeout(deadline)
        .map_err(|_| format!("{missing} within {deadline:?}"))?
}
