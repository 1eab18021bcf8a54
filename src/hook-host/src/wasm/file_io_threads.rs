//! The threads for file operations of hooks with granted directories.
//!
//! A file operation can hang, for instance on an unreachable file server, and no deadline ends its thread. So
//! these operations have a few threads of their own. The launcher's other work and hooks without
//! directories do not need these threads, and a program that exits does not wait for them.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio_util::context::TokioContext;

/// Maximum number of file operations at once. Further operations wait, at most until the deadline of their call.
const MAX_THREADS: usize = 8;

/// The runtime with these threads. It is never dropped, because that would wait for hanging operations.
static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

/// Runs work whose blocking operations use these threads. The error is why there are no threads.
pub(super) async fn run<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = RUNTIME.get_or_init(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(MAX_THREADS)
            .thread_name("hook-files")
            .enable_all()
            .build();
        runtime.map_err(|error| format!("no threads for its directories: {error}"))
    });
    let runtime = runtime.as_ref().map_err(String::clone)?;
    Ok(TokioContext::new(work, runtime.handle().clone()).await)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::blocking_work;

    #[tokio::test]
    async fn hanging_operations_block_only_the_threads_for_files() {
        let (ends, receivers): (Vec<_>, Vec<_>) =
            (0..MAX_THREADS).map(|_| mpsc::channel::<()>()).unzip();
        for end in receivers {
            let hang = async {
                let operation = tokio::task::spawn_blocking(move || {
                    let _ = end.recv();
                });
                drop(operation);
            };
            run(hang).await.unwrap();
        }
        // The next operation on these threads times out, and one on the other threads does not.
        let short = Duration::from_millis(20);
        let next = run(async { tokio::time::timeout(short, blocking_work::run(|| ())).await });
        assert!(next.await.unwrap().is_err());
        blocking_work::run(|| ()).await.unwrap();
        drop(ends);
        run(blocking_work::run(|| ())).await.unwrap().unwrap();
    }
}
