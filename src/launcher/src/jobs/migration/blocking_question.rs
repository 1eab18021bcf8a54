//! A blocking question that holds at most one thread.

use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

/// It is asked again only after an answer, so that a daemon that never answers holds one thread.
pub(super) struct Question<T>(Option<JoinHandle<T>>);

impl<T> Default for Question<T> {
    fn default() -> Self {
        Question(None)
    }
}

impl<T: Send + 'static> Question<T> {
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
