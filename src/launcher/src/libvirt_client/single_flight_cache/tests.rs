//! Shared calls, the age of answers, invalidation and failures.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const CACHED_FOR_AN_HOUR: CacheAge = CacheAge {
    max: HOUR,
    refresh_after: HOUR,
};

/// Calls that end when they are released. The answer is the number of calls so far.
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

    /// Calls that are released at once.
    fn released() -> Calls {
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

    async fn wait_until_begun(&self, count: usize) {
        while self.begun.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn callers_at_the_same_time_share_one_call() {
    let (shared, calls) = (
        SingleFlightCache::new("asking", CacheAge::NONE),
        Calls::new(),
    );
    let release = async {
        calls.wait_until_begun(1).await;
        calls.released.add_permits(1);
    };
    let asking = join_all((0..100).map(|_| shared.get(calls.ask())));
    let (answers, ()) = tokio::join!(asking, release);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(1))));
    calls.released.close();
    assert!(matches!(shared.get(calls.ask()).await, Ok(2)), "not cached");
}

#[tokio::test]
async fn answer_is_cached_until_its_age_limit() {
    let calls = Calls::released();
    let cached = SingleFlightCache::new("asking", CACHED_FOR_AN_HOUR);
    for _ in 0..2 {
        assert!(matches!(cached.get(calls.ask()).await, Ok(1)));
    }
    let max = Duration::from_millis(5);
    let brief = SingleFlightCache::new(
        "asking",
        CacheAge {
            max,
            ..CACHED_FOR_AN_HOUR
        },
    );
    assert!(matches!(brief.get(calls.ask()).await, Ok(2)));
    tokio::time::sleep(max * 2).await;
    assert!(matches!(brief.get(calls.ask()).await, Ok(3)));
}

#[tokio::test]
async fn polled_answer_is_refreshed_in_the_background() {
    let age = CacheAge {
        max: HOUR,
        refresh_after: Duration::ZERO,
    };
    let (shared, calls) = (SingleFlightCache::new("asking", age), Calls::new());
    calls.released.add_permits(1);
    assert!(matches!(shared.get(calls.ask()).await, Ok(1)));
    for _ in 0..3 {
        assert!(matches!(shared.get(calls.ask()).await, Ok(1)), "no waiting");
    }
    calls.wait_until_begun(2).await;
    calls.released.close();
    while !matches!(shared.get(calls.ask()).await, Ok(2..)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn invalidation_discards_cached_and_running_answers() {
    let shared = Arc::new(SingleFlightCache::new("asking", CACHED_FOR_AN_HOUR));
    let calls = Calls::new();
    let early = tokio::spawn({
        let (shared, ask) = (Arc::clone(&shared), calls.ask());
        async move { shared.get(ask).await }
    });
    calls.wait_until_begun(1).await;
    shared.invalidate();
    calls.released.close();
    assert!(matches!(shared.get(calls.ask()).await, Ok(2)));
    assert!(matches!(early.await, Ok(Ok(1))));
    assert!(matches!(shared.get(calls.ask()).await, Ok(2)), "cached");
}

#[tokio::test]
async fn failure_is_not_cached() {
    let shared = SingleFlightCache::new("asking", CACHED_FOR_AN_HOUR);
    let failure = async { Err(NoAnswer::Panic { what: "asking" }) };
    assert!(shared.get(failure).await.is_err());
    assert!(matches!(shared.get(Calls::released().ask()).await, Ok(1)));
}

#[tokio::test]
async fn panicking_call_is_an_error() {
    let shared = SingleFlightCache::<usize, NoAnswer>::new("asking", CACHED_FOR_AN_HOUR);
    let result = shared.get(async { panic!("expected by a test") }).await;
    assert!(matches!(result, Err(NoAnswer::Panic { .. })));
    assert!(matches!(shared.get(Calls::released().ask()).await, Ok(1)));
}
