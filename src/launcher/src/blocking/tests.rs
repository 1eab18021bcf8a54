//! Tests of the limits and timeouts of blocking calls.

use std::sync::{Arc, Mutex, mpsc};

use tokio::runtime::{Builder, Runtime};

use super::*;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

/// Occupies the only thread for blocking work until the sender is dropped.
fn busy_runtime() -> (Runtime, mpsc::Sender<()>) {
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (release, held) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || {
        let _ = held.recv();
    });
    (runtime, release)
}

#[tokio::test]
async fn slow_call_times_out() {
    let (_release, held) = mpsc::channel::<()>();
    let error = file_call("napping", SHORT, move || held.recv()).await;
    let text = error.unwrap_err().to_string();
    assert_eq!(text, "napping gave no answer within 20ms");
}

#[tokio::test]
async fn answer_is_returned() {
    for answer in [
        file_call("adding", LONG, || 1 + 1).await,
        call("adding", LONG, || 1 + 1).await,
        CONNECT_LANE.call("adding", LONG, || 1 + 1).await,
    ] {
        assert_eq!(answer.unwrap(), 2);
    }
}

#[test]
fn file_work_whose_caller_gave_up_never_begins() {
    let (runtime, release) = busy_runtime();
    let (ran, has_run) = mpsc::channel();
    let late = file_call("removing", SHORT, move || ran.send(()).unwrap());
    assert!(matches!(
        runtime.block_on(late),
        Err(NoAnswer::Timeout { .. })
    ));
    drop(release);
    let later = file_call("later work", LONG, || ());
    runtime.block_on(later).unwrap();
    assert!(has_run.try_recv().is_err());
}

#[test]
fn libvirt_is_called_while_all_threads_for_files_hang() {
    let (runtime, _release) = busy_runtime();
    assert_eq!(runtime.block_on(call("resuming", LONG, || 1)).unwrap(), 1);
    let connected = runtime.block_on(CONNECT_LANE.call("connecting", LONG, || 2));
    assert_eq!(connected.unwrap(), 2);
}

#[test]
fn hanging_files_leave_threads_for_hooks() {
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(MAX_THREADS)
        .enable_all()
        .build()
        .unwrap();
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let hook = runtime.block_on(async {
        for _ in 0..MAX_THREADS {
            let held = held.clone();
            tokio::spawn(file_call("hanging", LONG, move || {
                let _ = held.lock().unwrap().recv();
            }));
        }
        tokio::task::yield_now().await;
        tokio::time::timeout(LONG, tokio::task::spawn_blocking(|| 1)).await
    });
    drop(release);
    assert_eq!(hook.unwrap().unwrap(), 1);
}

mod lane_threads {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::super::*;

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
