//! Lanes: threads for one kind of blocking call.
//!
//! Each lane has a limited number of threads. Calls that hang in libvirt occupy only the threads of their lane, and do
//! not delay calls in other lanes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::NoAnswer;

/// An idle thread ends after this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of calls that wait for a thread. A call whose caller has given up waits, too: its entry is small, but
/// virt-handler asks every few seconds for as long as libvirt hangs.
const MAX_WAITING: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// A limited number of threads with a queue. Threads are started on demand.
pub(crate) struct Lane(Arc<Threads>);

struct Threads {
    name: &'static str,
    limit: usize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

impl Lane {
    /// A lane of at most `limit` threads called `name`, of which Linux shows the first 15 bytes.
    pub(crate) fn new(name: &'static str, limit: usize) -> Lane {
        Lane(Arc::new(Threads {
            name,
            limit,
            state: Mutex::default(),
            wake: Condvar::new(),
        }))
    }

    /// Runs `work` and waits for its result for at most `deadline`, including the time until a thread is free. Work
    /// that has not begun when its caller gives up is skipped.
    pub(crate) async fn call<T, F>(
        &self,
        what: &'static str,
        deadline: Duration,
        work: F,
    ) -> Result<T, NoAnswer>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        if self.0.lock().waiting.len() >= MAX_WAITING {
            return Err(NoAnswer::TooManyWait { what });
        }
        self.push(Box::new(move || {
            if !answer.is_closed() {
                // If the caller has given up, this drops the result here, off the async workers.
                let _ = answer.send(work());
            }
        }));
        match tokio::time::timeout(deadline, answered).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(NoAnswer::Panic { what }),
            Err(_) => Err(NoAnswer::Timeout { what, deadline }),
        }
    }

    /// Queues a job without waiting for it.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.0.lock();
        state.waiting.push_back(job);
        if state.waiting.len() > state.idle && state.threads < self.0.limit {
            let threads = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name(self.0.name.to_owned());
            match thread.spawn(move || threads.run_jobs()) {
                Ok(_) => state.threads += 1,
                Err(error) => tracing::error!(reason = %error, "no new thread for libvirt calls"),
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_jobs(&self) {
        while let Some(job) = self.next() {
            // A panic drops the answer's sender, which the caller notices; the thread continues.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// Waits for the next job; `None` when there was none within [`IDLE_TIMEOUT`], so that the thread ends.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let waited = self.wake.wait_timeout(state, IDLE_TIMEOUT);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    /// A job that hangs until the returned sender is dropped.
    fn hanging() -> (mpsc::Sender<()>, impl FnOnce() + Send + 'static) {
        let (release, held) = mpsc::channel::<()>();
        (release, move || {
            let _ = held.recv();
        })
    }

    #[tokio::test]
    async fn hanging_call_times_out_and_the_error_contains_its_name() {
        let lane = Lane::new("test", 1);
        let (_release, hang) = hanging();
        let error = lane.call("pausing the domain", SHORT, hang).await;
        let text = error.unwrap_err().to_string();
        assert_eq!(text, "pausing the domain gave no answer within 20ms");
    }

    #[tokio::test]
    async fn hanging_call_delays_only_its_own_lane() {
        let (queries, ending) = (Lane::new("test", 2), Lane::new("test", 1));
        let hanging = [hanging(), hanging()].map(|(release, hang)| {
            queries.push(Box::new(hang));
            release
        });
        let late = queries.call("a query", SHORT, || ()).await;
        assert!(late.is_err(), "both threads are busy");
        assert_eq!(ending.call("ending", LONG, || 1).await.unwrap(), 1);
        drop(hanging);
        assert_eq!(queries.call("a query", LONG, || 2).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn call_is_skipped_when_its_caller_gave_up() {
        let lane = Lane::new("test", 1);
        let (release, hang) = hanging();
        lane.push(Box::new(hang));
        let (ran, has_run) = mpsc::channel();
        let late = lane.call("late work", SHORT, move || ran.send(()).unwrap());
        assert!(late.await.is_err());
        drop(release);
        lane.call("later work", LONG, || ()).await.unwrap();
        assert!(has_run.try_recv().is_err());
    }

    #[tokio::test]
    async fn calls_that_wait_behind_hanging_ones_are_limited() {
        let lane = Lane::new("test", 1);
        let (release, hang) = hanging();
        lane.push(Box::new(hang));
        // Until the thread has taken the job that hangs.
        while !lane.0.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..MAX_WAITING {
            let late = lane.call("a query", Duration::ZERO, || ()).await;
            assert!(matches!(late, Err(NoAnswer::Timeout { .. })), "{late:?}");
        }
        let refused = lane.call("a query", LONG, || ()).await;
        let text = refused.unwrap_err().to_string();
        assert_eq!(
            text,
            "a query was not begun: too many calls that hang are before it"
        );
        drop(release);
        while lane.call("a query", LONG, || ()).await.is_err() {}
        assert!(lane.0.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn panic_is_an_error_and_keeps_the_thread() {
        let lane = Lane::new("test", 1);
        let fail = || -> usize { panic!("expected by a test") };
        let result = lane.call("a fault", LONG, fail).await;
        assert!(matches!(result, Err(NoAnswer::Panic { .. })));
        let begin = Instant::now();
        assert_eq!(lane.call("adding", LONG, || 1 + 1).await.unwrap(), 2);
        assert!(begin.elapsed() < LONG);
    }
}
