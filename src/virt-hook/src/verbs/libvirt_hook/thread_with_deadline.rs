//! A thread for work that may hang, whose result is awaited until a deadline.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Runs `work` in a thread. If it is not done within the deadline, the error begins with `timeout_text`, and the thread
/// ends with the process.
pub(super) fn run_with_deadline<T: Send + 'static>(
    deadline: Duration,
    timeout_text: &str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Fails only if the deadline has expired.
        let _ = sender.send(work());
    });
    receiver
        .recv_timeout(deadline)
        .map_err(|_| format!("{timeout_text} within {deadline:?}"))?
}
