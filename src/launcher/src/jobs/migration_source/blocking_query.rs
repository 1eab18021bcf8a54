//! A blocking, repeated query that occupies at most one thread.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

/// A query that is sent again only after the last one was answered, so that a daemon that never answers occupies one
/// thread.
pub(super) struct BlockingQuery<T>(Option<JoinHandle<T>>);

impl<T> Default for BlockingQuery<T> {
    fn default() -> Self {
        BlockingQuery(None)
    }
}

impl<T: Send + 'static> BlockingQuery<T> {
    /// Sends the query, unless an earlier one is unanswered. Returns the answer, which may be that of the earlier
    /// query; `None` if there is none within the timeout.
    pub(super) async fn run<Q>(&mut self, timeout: Duration, query: impl FnOnce() -> Q) -> Option<T>
    where
        Q: FnOnce() -> T + Send + 'static,
    {
        let running = self.0.get_or_insert_with(|| spawn_blocking(query()));
        let answer = tokio::time::timeout(timeout, running).await.ok()?;
        self.0 = None;
        answer.ok()
    }
}
