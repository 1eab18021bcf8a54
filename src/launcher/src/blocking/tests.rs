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
