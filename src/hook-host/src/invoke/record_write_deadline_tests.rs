//! Tests that the time for writing records is limited, and how it counts against deadlines.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};

use super::hook_point_run::HookPointRun;
use super::input_and_verified_output::Input;
use crate::hook::{Hook, HookInfo, HookKind};
use crate::hook_body::{HookBody, HookCall, HookOutput, HookReport};
use crate::pod_facts::PodFactSource;
use crate::policy::resolve_sidecar;
use crate::record::RecordWriter;
use crate::{HookPoint, Invocation, Limits, Reason};

struct IdleHook;

impl HookBody for IdleHook {
    fn call_hook<'a>(&'a self, _: HookCall<'a>) -> BoxFuture<'a, HookReport> {
        Box::pin(ready(HookReport::result_only(Ok(HookOutput::Nothing))))
    }

    fn has_own_deadline(&self) -> bool {
        false
    }

    fn rewrites_document(&self) -> bool {
        false
    }
}

fn idle_hook() -> Hook {
    Hook {
        info: HookInfo {
            hook: "idle".to_owned(),
            name: "idle".to_owned(),
            version: String::new(),
            directory: "idle".to_owned(),
            file: "idle.wasm".to_owned(),
            kind: HookKind::Wasm {
                digest: String::new(),
            },
            hook_points: Vec::new(),
            uncalled_points: Vec::new(),
            is_final: false,
            compile_time: None,
            ready_after: Duration::ZERO,
        },
        settings: resolve_sidecar(Vec::new(), &Limits::default(), None, None).unwrap(),
        body: Box::new(IdleHook),
    }
}

fn invocation() -> Invocation {
    Invocation {
        reason: Reason::Boot,
        domain: "ns_vm".to_owned(),
        namespace: "ns".to_owned(),
        name: "vm".to_owned(),
        uid: "7".to_owned(),
    }
}

const WRITE_TIME: Duration = Duration::from_millis(50);

#[tokio::test]
async fn writing_a_record_does_not_count_against_the_chains_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let minute = Duration::from_secs(60);
    let recorder = RecordWriter::writing(dir.path(), minute, |_, _| {
        sleep(WRITE_TIME);
        Ok(())
    });
    let (recorder, limits, facts) = (recorder, Limits::default(), PodFactSource::None);
    let recorder = Some(&recorder);
    let mut run = HookPointRun::new(
        &limits,
        HookPoint::PreStart,
        &invocation(),
        "{}",
        recorder,
        &facts,
        None,
    );
    for calls in 1..=2 {
        assert!(run.call(&idle_hook(), Input::PreStart).await.is_ok());
        assert!(run.uncharged_time >= WRITE_TIME * calls);
    }
}

#[tokio::test]
async fn calls_and_records_for_an_arriving_domain_have_15_seconds_together() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = RecordWriter::writing(dir.path(), Duration::from_secs(60), |_, _| {
        sleep(WRITE_TIME);
        Ok(())
    });
    let facts = PodFactSource::None;
    for (chain, arrival) in [(60, 15), (15, 15), (5, 5)] {
        let limits = Limits {
            chain_deadline: Duration::from_secs(chain),
            ..Limits::default()
        };
        let mut run = HookPointRun::new(
            &limits,
            HookPoint::PreStart,
            &invocation(),
            "{}",
            Some(&recorder),
            &facts,
            None,
        );
        run.set_arriving();
        assert_eq!(run.time_budget, Duration::from_secs(arrival));
        assert!(run.call(&idle_hook(), Input::PreStart).await.is_ok());
        assert_eq!(run.uncharged_time, Duration::ZERO);
    }
}

static WRITE_HANGS: AtomicBool = AtomicBool::new(true);
static WRITES: AtomicUsize = AtomicUsize::new(0);

/// Ends the hanging write when the test ends, because the runtime waits for its thread.
struct EndWriteOnDrop;

impl Drop for EndWriteOnDrop {
    fn drop(&mut self) {
        WRITE_HANGS.store(false, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn hanging_write_ends_recording() {
    let dir = tempfile::tempdir().unwrap();
    let _end_write = EndWriteOnDrop;
    let recorder = RecordWriter::writing(dir.path(), Duration::from_millis(1), |_, _| {
        WRITES.fetch_add(1, Ordering::SeqCst);
        while WRITE_HANGS.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    let (recorder, limits, facts) = (recorder, Limits::default(), PodFactSource::None);
    let mut run = HookPointRun::new(
        &limits,
        HookPoint::PreStart,
        &invocation(),
        "{}",
        Some(&recorder),
        &facts,
        None,
    );
    for _ in 0..8 {
        assert!(run.call(&idle_hook(), Input::PreStart).await.is_ok());
    }
    // Only the first call starts a write; its thread may not have begun it yet.
    assert!(WRITES.load(Ordering::SeqCst) <= 1);
    assert!(recorder.new_determinism().is_none());
}
