//! A blocking call to libvirt that holds at most one thread.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

/// The call is repeated only after its answer, so that a daemon that never answers holds one thread.
pub(super) struct BlockingQuery<T>(Option<JoinHandle<T>>);

impl<T> Default for BlockingQuery<T> {
    fn default() -> Self {
        BlockingQuery(None)
    }
}

impl<T: Send + 'static> BlockingQuery<T> {
    /// The answer, maybe to a question that was asked before; `None` if there is none in time.
    pub(super) async fn ask<W>(
        &mut self,
        deadline: Duration,
        question: impl FnOnce() -> W,
    ) -> Option<T>
    where
        W: FnOnce() -> T + Send + 'static,
    {
        let asked = self.0.get_or_insert_with(|| spawn_blocking(question()));
        let answer = tokio::time::timeout(deadline, asked).await.ok()?;
        self.0 = None;
        answer.ok()
    }
}
