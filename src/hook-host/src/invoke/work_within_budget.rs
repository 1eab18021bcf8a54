//! Runs the host's own work on an untrusted document, such as a hook's output: within a budget, and off the async
//! workers if the document is large.

use std::rc::Rc;
use std::time::Instant;

use domain_xml::host::{Budget, Exhaustion};
use tokio::time::timeout_at;

use crate::blocking_work;

/// Maximum number of steps for one piece of work. A step costs some ten nanoseconds; ordinary output takes
/// thousands of steps, and 50,000 new elements under 256 wishes of 8 predicates about a million.
const MAX_STEPS: u64 = 5_000_000;
/// Work on texts up to this size is first tried on the async worker: for most hooks it takes some
/// ten microseconds, less than waking up another thread.
const INLINE_BYTES: usize = 64 << 10;
/// Maximum number of steps on the async worker; they take less than a millisecond.
const INLINE_STEPS: u64 = 20_000;

/// Why work was not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BudgetError {
    /// The steps were exhausted.
    #[error(
        "checking it takes more than {MAX_STEPS} steps: too many elements or changes for this many \
         patterns and predicates"
    )]
    Steps,
    /// The deadline expired.
    #[error("checking it took longer than the call's deadline left; too many elements or changes")]
    Time,
    /// The work panicked, which is a defect of the host.
    #[error("checking it failed")]
    Defect,
}

/// Runs work on `bytes` bytes of untrusted text until `deadline`. The work may be started twice. Its
/// result is returned only if the budget was sufficient.
pub(super) async fn run<T: Send + 'static>(
    deadline: Instant,
    bytes: usize,
    work: impl Fn(&Rc<Budget<'static>>) -> T + Send + 'static,
) -> Result<T, BudgetError> {
    if bytes <= INLINE_BYTES
        && let Ok(result) = attempt(Budget::of_steps(INLINE_STEPS), &work)
    {
        return Ok(result);
    }
    let budget = move || Budget::of_steps(MAX_STEPS).until(move || Instant::now() >= deadline);
    let result = blocking_work::run(move || attempt(budget(), &work));
    // The budget ends the work in time; this timeout applies if no thread is free to begin the work.
    let Ok(result) = timeout_at(deadline.into(), result).await else {
        return Err(BudgetError::Time);
    };
    match result {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(Exhaustion::Steps)) => Err(BudgetError::Steps),
        Ok(Err(Exhaustion::Time)) => Err(BudgetError::Time),
        Err(error) => {
            tracing::error!(%error, "the check of a hook's input or output failed");
            Err(BudgetError::Defect)
        }
    }
}

fn attempt<T>(
    budget: Budget<'static>,
    work: &impl Fn(&Rc<Budget<'static>>) -> T,
) -> Result<T, Exhaustion> {
    let budget = Rc::new(budget);
    let result = work(&budget);
    budget.exhausted().map_or(Ok(result), Err)
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use super::*;

    async fn spend(steps: u64, bytes: usize, time: Duration) -> Result<ThreadId, BudgetError> {
        run(Instant::now() + time, bytes, move |budget| {
            for _ in 0..steps {
                if !budget.spend(1) {
                    break;
                }
            }
            thread::current().id()
        })
        .await
    }

    #[tokio::test]
    async fn only_small_work_runs_on_the_async_worker() {
        let (this_thread, hour) = (thread::current().id(), Duration::from_secs(3600));
        assert_eq!(spend(10, 10, hour).await, Ok(this_thread));
        assert_ne!(
            spend(10, INLINE_BYTES + 1, hour).await.unwrap(),
            this_thread
        );
        assert_ne!(
            spend(INLINE_STEPS + 1, 10, hour).await.unwrap(),
            this_thread
        );
        assert_eq!(
            spend(MAX_STEPS + 1, 10, hour).await,
            Err(BudgetError::Steps)
        );
    }

    #[tokio::test]
    async fn work_ends_at_its_deadline() {
        let spent = spend(INLINE_STEPS + 1, 10, Duration::ZERO).await;
        assert_eq!(spent, Err(BudgetError::Time));
    }

    #[test]
    fn work_that_no_thread_begins_ends_at_its_deadline() {
        let (runtime, _release) = blocking_work::tests::busy_runtime();
        let spent = spend(10, INLINE_BYTES + 1, Duration::from_millis(20));
        assert_eq!(runtime.block_on(spent), Err(BudgetError::Time));
    }

    #[tokio::test]
    async fn a_panic_of_the_work_is_an_error() {
        let soon = Instant::now() + Duration::from_secs(60);
        let result: Result<(), _> = run(soon, INLINE_BYTES + 1, |_| panic!("a defect")).await;
        assert_eq!(result, Err(BudgetError::Defect));
    }
}
