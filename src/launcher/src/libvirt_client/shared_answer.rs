//! One answer for many callers: callers during a call wait for that call, callers soon after it get the same answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::blocking::NoAnswer;

/// How old an answer may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Age {
    /// The greatest age of an answer, counted from the start of its call.
    pub(crate) limit: Duration,
    /// From this age on, a request also starts a new call in the background.
    pub(crate) refresh: Duration,
}

impl Age {
    /// Only the answer of a call that is under way is shared.
    pub(super) const NONE: Age = Age {
        limit: Duration::ZERO,
        refresh: Duration::ZERO,
    };
}

/// The answer, and the call that is under way for it.
pub(crate) struct SharedAnswer<T, E> {
    what: &'static str,
    age: Age,
    state: Arc<Mutex<State<T, E>>>,
}

struct State<T, E> {
    /// Counts invalidations: an answer of an earlier epoch is not used in a later one.
    epoch: u64,
    answer: Option<(Instant, T)>,
    call: Option<Call<T, E>>,
}

struct Call<T, E> {
    epoch: u64,
    answer: watch::Receiver<Option<Result<T, E>>>,
}

impl<T, E> Call<T, E> {
    /// Whether the call belongs to the epoch and still runs: a call that panicked does not.
    fn is_of(&self, epoch: u64) -> bool {
        self.epoch == epoch && self.answer.has_changed().is_ok()
    }
}

impl<T, E> SharedAnswer<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + From<NoAnswer> + Send + Sync + 'static,
{
    pub(crate) fn new(what: &'static str, age: Age) -> SharedAnswer<T, E> {
        SharedAnswer {
            what,
            age,
            state: Arc::new(Mutex::new(State {
                epoch: 0,
                answer: None,
                call: None,
            })),
        }
    }

    /// Discards the cached answer and that of a running call, for all later requests.
    pub(super) fn invalidate(&self) {
        let mut state = lock(&self.state);
        state.epoch += 1;
        state.answer = None;
    }

    /// The answer; `ask` is run when there is none to share.
    pub(crate) async fn get<F>(&self, ask: F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let mut call = match self.known_or_call(ask) {
            Ok(answer) => return Ok(answer),
            Err(call) => call,
        };
        let fault = || Err(NoAnswer::Fault { what: self.what }.into());
        let answered = call.wait_for(Option::is_some).await;
        answered.map_or_else(|_| fault(), |answer| answer.clone().unwrap_or_else(fault))
    }

    fn known_or_call<F>(&self, ask: F) -> Result<T, watch::Receiver<Option<Result<T, E>>>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let mut state = lock(&self.state);
        let epoch = state.epoch;
        let under_way = state.call.as_ref().filter(|call| call.is_of(epoch));
        let under_way = under_way.map(|call| call.answer.clone());
        if let Some((since, answer)) = &state.answer
            && since.elapsed() < self.age.limit
        {
            let (answer, age) = (answer.clone(), since.elapsed());
            if age >= self.age.refresh && under_way.is_none() {
                self.begin(&mut state, ask);
            }
            return Ok(answer);
        }
        Err(under_way.unwrap_or_else(|| self.begin(&mut state, ask)))
    }

    /// Runs the call as a task, so that it continues for the other callers when one goes away.
    fn begin<F>(&self, state: &mut State<T, E>, ask: F) -> watch::Receiver<Option<Result<T, E>>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let (sender, answer) = watch::channel(None);
        let (epoch, since) = (state.epoch, Instant::now());
        state.call = Some(Call {
            epoch,
            answer: answer.clone(),
        });
        let shared = Arc::clone(&self.state);
        tokio::spawn(async move {
            let result = ask.await;
            let mut state = lock(&shared);
            if state.epoch == epoch {
                state.call = None;
                state.answer = result.as_ref().ok().map(|answer| (since, answer.clone()));
            }
            drop(state);
            sender.send_replace(Some(result));
        });
        answer
    }
}

fn lock<S>(state: &Mutex<S>) -> MutexGuard<'_, S> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const KEPT: Age = Age {
        limit: HOUR,
        refresh: HOUR,
    };

    /// A call that ends when it is released; it answers how many calls there were.
    #[derive(Clone)]
    struct Calls {
        begun: Arc<AtomicUsize>,
        released: Arc<Semaphore>,
    }

    impl Calls {
        fn new() -> Calls {
            Calls {
                begun: Arc::default(),
                released: Arc::new(Semaphore::new(0)),
            }
        }

        /// Calls that end at once.
        fn quick() -> Calls {
            let calls = Calls::new();
            calls.released.close();
            calls
        }

        fn ask(&self) -> impl Future<Output = Result<usize, NoAnswer>> + Send + 'static {
            let calls = self.clone();
            async move {
                let count = calls.begun.fetch_add(1, Ordering::SeqCst) + 1;
                if let Ok(permit) = calls.released.acquire().await {
                    permit.forget();
                }
                Ok(count)
            }
        }

        async fn begun(&self, count: usize) {
            while self.begun.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn callers_at_the_same_time_share_one_call() {
        let (shared, calls) = (SharedAnswer::new("asking", Age::NONE), Calls::new());
        let release = async {
            calls.begun(1).await;
            calls.released.add_permits(1);
        };
        let asking = join_all((0..100).map(|_| shared.get(calls.ask())));
        let (answers, ()) = tokio::join!(asking, release);
        assert!(answers.iter().all(|answer| matches!(answer, Ok(1))));
        calls.released.close();
        assert!(matches!(shared.get(calls.ask()).await, Ok(2)), "not kept");
    }

    #[tokio::test]
    async fn answer_is_cached_until_its_age_limit() {
        let calls = Calls::quick();
        let cached = SharedAnswer::new("asking", KEPT);
        for _ in 0..2 {
            assert!(matches!(cached.get(calls.ask()).await, Ok(1)));
        }
        let limit = Duration::from_millis(5);
        let brief = SharedAnswer::new("asking", Age { limit, ..KEPT });
        assert!(matches!(brief.get(calls.ask()).await, Ok(2)));
        tokio::time::sleep(limit * 2).await;
        assert!(matches!(brief.get(calls.ask()).await, Ok(3)));
    }

    #[tokio::test]
    async fn polled_answer_is_refreshed_in_the_background() {
        let age = Age {
            limit: HOUR,
            refresh: Duration::ZERO,
        };
        let (shared, calls) = (SharedAnswer::new("asking", age), Calls::new());
        calls.released.add_permits(1);
        assert!(matches!(shared.get(calls.ask()).await, Ok(1)));
        for _ in 0..3 {
            assert!(matches!(shared.get(calls.ask()).await, Ok(1)), "no waiting");
        }
        calls.begun(2).await;
        calls.released.close();
        while !matches!(shared.get(calls.ask()).await, Ok(2..)) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn invalidation_discards_cached_and_running_answers() {
        let shared = Arc::new(SharedAnswer::new("asking", KEPT));
        let calls = Calls::new();
        let early = tokio::spawn({
            let (shared, ask) = (Arc::clone(&shared), calls.ask());
            async move { shared.get(ask).await }
        });
        calls.begun(1).await;
        shared.invalidate();
        calls.released.close();
        assert!(matches!(shared.get(calls.ask()).await, Ok(2)));
        assert!(matches!(early.await, Ok(Ok(1))));
        assert!(matches!(shared.get(calls.ask()).await, Ok(2)), "kept");
    }

    #[tokio::test]
    async fn failure_is_not_cached() {
        let shared = SharedAnswer::new("asking", KEPT);
        let failure = async { Err(NoAnswer::Fault { what: "asking" }) };
        assert!(shared.get(failure).await.is_err());
        assert!(matches!(shared.get(Calls::quick().ask()).await, Ok(1)));
    }

    #[tokio::test]
    async fn panicking_call_is_a_fault() {
        let shared = SharedAnswer::<usize, NoAnswer>::new("asking", KEPT);
        let fault = shared.get(async { panic!("expected by a test") }).await;
        assert!(matches!(fault, Err(NoAnswer::Fault { .. })));
        assert!(matches!(shared.get(Calls::quick().ask()).await, Ok(1)));
    }
}
