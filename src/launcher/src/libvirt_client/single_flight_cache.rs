//! A cache with single flight: callers during a call wait for that call's answer, and callers soon afterwards get the
//! cached answer.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::blocking::NoAnswer;

/// The age limits of cached answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheAge {
    /// Maximum age of an answer, counted from the start of its call.
    pub(crate) max: Duration,
    /// A request for an older answer than this also starts a new call in the background.
    pub(crate) refresh_after: Duration,
}

impl CacheAge {
    /// No answer is cached; callers share only the answer of a running call.
    pub(super) const NONE: CacheAge = CacheAge {
        max: Duration::ZERO,
        refresh_after: Duration::ZERO,
    };
}

/// Caches the last answer, and shares the running call.
pub(crate) struct SingleFlightCache<T, E> {
    what: &'static str,
    age: CacheAge,
    state: Arc<Mutex<State<T, E>>>,
}

struct State<T, E> {
    /// The number of invalidations. An answer of an earlier generation is not used in a later one.
    generation: u64,
    answer: Option<(Instant, T)>,
    call: Option<Call<T, E>>,
}

struct Call<T, E> {
    generation: u64,
    answer: watch::Receiver<Option<Result<T, E>>>,
}

impl<T, E> Call<T, E> {
    /// Whether the call belongs to the generation and still runs. A call that has panicked does not run.
    fn is_running_in(&self, generation: u64) -> bool {
        self.generation == generation && self.answer.has_changed().is_ok()
    }
}

impl<T, E> SingleFlightCache<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + From<NoAnswer> + Send + Sync + 'static,
{
    /// An empty cache; `what` names the call in errors.
    pub(crate) fn new(what: &'static str, age: CacheAge) -> SingleFlightCache<T, E> {
        SingleFlightCache {
            what,
            age,
            state: Arc::new(Mutex::new(State {
                generation: 0,
                answer: None,
                call: None,
            })),
        }
    }

    /// Discards the cached answer and the answer of a running call, for all later requests.
    pub(super) fn invalidate(&self) {
        let mut state = lock(&self.state);
        state.generation += 1;
        state.answer = None;
    }

    /// The answer. `ask` runs when there is no answer or call to share.
    pub(crate) async fn get<F>(&self, ask: F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let mut call = match self.cached_or_in_flight(ask) {
            Ok(answer) => return Ok(answer),
            Err(call) => call,
        };
        let panicked = || Err(NoAnswer::Panic { what: self.what }.into());
        let answered = call.wait_for(Option::is_some).await;
        answered.map_or_else(
            |_| panicked(),
            |answer| answer.clone().unwrap_or_else(panicked),
        )
    }

    fn cached_or_in_flight<F>(&self, ask: F) -> Result<T, watch::Receiver<Option<Result<T, E>>>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let mut state = lock(&self.state);
        let generation = state.generation;
        let in_flight = state
            .call
            .as_ref()
            .filter(|call| call.is_running_in(generation));
        let in_flight = in_flight.map(|call| call.answer.clone());
        if let Some((since, answer)) = &state.answer
            && since.elapsed() < self.age.max
        {
            let (answer, age) = (answer.clone(), since.elapsed());
            if age >= self.age.refresh_after && in_flight.is_none() {
                self.begin(&mut state, ask);
            }
            return Ok(answer);
        }
        Err(in_flight.unwrap_or_else(|| self.begin(&mut state, ask)))
    }

    /// Runs the call as a task, so that it continues for the other callers when one of them gives up.
    fn begin<F>(&self, state: &mut State<T, E>, ask: F) -> watch::Receiver<Option<Result<T, E>>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let (sender, answer) = watch::channel(None);
        let (generation, since) = (state.generation, Instant::now());
        state.call = Some(Call {
            generation,
            answer: answer.clone(),
        });
        let shared = Arc::clone(&self.state);
        tokio::spawn(async move {
            let result = ask.await;
            let mut state = lock(&shared);
            if state.generation == generation {
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
