//! The asynchronous runtime that the blocking calls of a test run on.

use std::future::Future;
use std::io;

/// Runs `work` to its end, on a runtime of its own.
pub(crate) fn block_on<F: Future>(work: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(work))
}
