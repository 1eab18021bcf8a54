//! Runs blocking work on tokio's threads for it, off the async workers.

use std::io;

use tokio_util::task::AbortOnDropHandle;

/// Runs `work` on a thread for blocking work. If the caller stops waiting before the work begins, it never begins. An
/// error means that the work panicked.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let result = AbortOnDropHandle::new(tokio::task::spawn_blocking(work)).await;
    result.map_err(io::Error::other)
}

#[cfg(test)]
pub(crate) mod tests {
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
        let (release, released) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || {
            let _ = released.recv();
        });
        (runtime, release)
    }

    #[test]
    fn work_does_not_begin_after_its_caller_stopped_waiting() {
        let (runtime, release) = busy_runtime();
        let (work_ran, runs) = mpsc::channel();
        let times_out = async {
            let work = run(move || work_ran.send(()).unwrap());
            timeout(Duration::from_millis(20), work).await.is_err()
        };
        assert!(runtime.block_on(times_out));
        drop(release);
        runtime.block_on(run(|| ())).unwrap();
        assert!(runs.try_recv().is_err());
    }
}
