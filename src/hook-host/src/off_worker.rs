//! Blocking work off the async workers.

use std::io;

use tokio_util::task::AbortOnDropHandle;

/// Runs work on a thread for blocking work. Work that has not begun when the caller stops waiting never begins. The error
/// is a panic of the work.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let done = AbortOnDropHandle::new(tokio::task::spawn_blocking(work)).await;
    done.map_err(io::Error::other)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::time::timeout;

    use super::*;

    /// A runtime whose only thread for blocking work is busy until the sender is dropped.
    pub(crate) fn busy_runtime() -> (Runtime, mpsc::Sender<()>) {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (release, held) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || {
            let _ = held.recv();
        });
        (runtime, release)
    }

    #[test]
    fn work_that_nobody_waits_for_never_begins() {
        let (runtime, release) = busy_runtime();
        let (ran, has_run) = mpsc::channel();
        let late = async {
            let work = run(move || ran.send(()).unwrap());
            timeout(Duration::from_millis(20), work).await.is_err()
        };
        assert!(runtime.block_on(late));
        drop(release);
        runtime.block_on(run(|| ())).unwrap();
        assert!(has_run.try_recv().is_err());
    }
}
