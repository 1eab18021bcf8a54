//! Blocking calls off the async workers, each with a deadline.

use std::time::Duration;

/// A blocking call gave no answer in time, or panicked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NoAnswer {
    /// It is still busy; its result, when it comes, is dropped.
    #[error("{what} gave no answer within {deadline:?}")]
    Late {
        /// What was called.
        what: &'static str,
        /// How long it had.
        deadline: Duration,
    },
    /// It ended without an answer: the program has a fault there.
    #[error("{what} failed inside the launcher; this is a fault of the launcher, please report it")]
    Fault {
        /// What was called.
        what: &'static str,
    },
}

/// Runs `work` on a thread for blocking calls and waits for it at most `deadline`.
pub(crate) async fn call<T, F>(
    what: &'static str,
    deadline: Duration,
    work: F,
) -> Result<T, NoAnswer>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let span = tracing::Span::current();
    let work = move || span.in_scope(work);
    match tokio::time::timeout(deadline, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err(NoAnswer::Fault { what }),
        Err(_) => Err(NoAnswer::Late { what, deadline }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slow_call_times_out() {
        let nap = || std::thread::sleep(Duration::from_millis(200));
        let error = call("napping", Duration::from_millis(10), nap)
            .await
            .expect_err("slow");
        assert_eq!(error.to_string(), "napping gave no answer within 10ms");
    }

    #[tokio::test]
    async fn answer_is_returned() {
        assert_eq!(
            call("adding", Duration::from_secs(5), || 1 + 1).await.ok(),
            Some(2)
        );
    }
}
