//! The threads for the file operations of hooks with granted directories.
//!
//! A file operation can hang, on a file server that is gone or on a file that blocks, and no deadline ends its thread. So
//! these operations have a few threads of their own, which hang alone: the launcher's other work and hooks without
//! directories need none of them, and a program that ends does not wait for them.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio_util::context::TokioContext;

/// The most file operations at once. Further ones wait until the deadline of their call.
const MAX_THREADS: usize = 8;

/// Never dropped, which would wait for operations that hang.
static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();

/// Runs work whose blocking operations use these threads. The error says why there are none.
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
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::off_worker;

    #[tokio::test]
    async fn operations_that_hang_take_no_other_threads() {
        let (ends, hung): (Vec<_>, Vec<_>) =
            (0..MAX_THREADS).map(|_| mpsc::channel::<()>()).unzip();
        for end in hung {
            let hang = async {
                let hung = tokio::task::spawn_blocking(move || {
                    let _ = end.recv();
                });
                drop(hung);
            };
            run(hang).await.unwrap();
        }
        // The next operation waits in vain, and everybody else's do not.
        let short = Duration::from_millis(20);
        let next = run(async { tokio::time::timeout(short, off_worker::run(|| ())).await });
        assert!(next.await.unwrap().is_err());
        off_worker::run(|| ()).await.unwrap();
        drop(ends);
        run(off_worker::run(|| ())).await.unwrap().unwrap();
    }
}
