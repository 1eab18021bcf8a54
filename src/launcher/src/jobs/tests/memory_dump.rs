//! Memory dumps as jobs: their record, their abort, their failures.

use super::*;

#[tokio::test]
async fn dump_is_recorded_at_its_start_and_end() {
    let rig = Rig::new().await;
    let path = rig.path("a.memory.dump");
    assert_eq!(rig.start(&path), JobStart::Started);
    let records = rig.ended().await;
    assert_eq!(records.len(), 2, "{records:?}");
    assert!(records[0].start_timestamp.is_some() && !records[0].completed);
    assert!(records[1].completed && !records[1].failed);
    assert!(Path::new(&path).exists());
    assert_eq!(rig.start(&path), JobStart::AlreadyDone);
    assert_eq!(rig.ended().await.len(), 2);
    let other = rig.path("b.memory.dump");
    assert_eq!(rig.start(&other), JobStart::Started);
    rig.ended().await;
    assert!(!Path::new(&path).exists(), "the earlier one went");
}

#[tokio::test]
async fn one_dump_runs_at_a_time() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(Duration::from_millis(300));
    assert_eq!(rig.start(&rig.path("a.memory.dump")), JobStart::Started);
    rig.until_dumping().await;
    for name in ["a.memory.dump", "b.memory.dump"] {
        assert_eq!(rig.start(&rig.path(name)), JobStart::AlreadyRunning);
    }
    assert_eq!(*rig.jobs.running().borrow(), Some(JobKind::MemoryDump));
    assert_eq!(rig.ended().await.len(), 2);
    assert_eq!(rig.fake.count(Call::CoreDump), 1);
}

#[tokio::test]
async fn guest_runs_until_the_pause_is_published() {
    let rig = Rig::with(Records {
        published: Some(Notify::new()),
        ..Records::default()
    })
    .await;
    rig.start(&rig.path("a.memory.dump"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rig.fake.count(Call::CoreDump), 0);
    rig.records.published.as_ref().unwrap().notify_one();
    assert!(rig.ended().await[1].completed);
}

#[tokio::test]
async fn every_failure_completes_the_record() {
    let no = || FakeDaemon::error(1, 7, "internal error: no");
    for call in [Call::Connect, Call::Lookup, Call::CoreDump] {
        let rig = Rig::new().await;
        rig.fake.fail_next(call, no());
        rig.start(&rig.path("a.memory.dump"));
        assert_eq!(
            rig.failure().await,
            "Domain memory dump failed: virError(Code=1, Domain=7, Message='internal error: no')"
        );
    }
    let rig = Rig::with(Records {
        panics: true,
        ..Records::default()
    })
    .await;
    rig.start(&rig.path("a.memory.dump"));
    assert!(rig.failure().await.contains("fault of the launcher"));
}

#[tokio::test]
async fn missing_directory_does_not_pause_the_guest() {
    let rig = Rig::new().await;
    rig.start("/nonexistent/x.dump");
    let reason = rig.failure().await;
    assert!(
        reason.contains("/nonexistent is not a writable directory"),
        "{reason}"
    );
    assert_eq!(rig.fake.count(Call::CoreDump), 0);
}

#[tokio::test]
async fn aborted_dump_has_a_reason_and_no_file() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(SOON * 10);
    let path = rig.path("a.memory.dump");
    rig.start(&path);
    rig.until(|| Path::new(&path).exists()).await;
    rig.jobs.abort(AbortReason::Kill);
    rig.jobs.abort(AbortReason::Exit);
    let asked = || rig.fake.count(Call::AbortJob) == 1;
    rig.until(asked).await;
    rig.fake.kill_qemu(DOMAIN);
    assert_eq!(
        rig.failure().await,
        "Domain memory dump failed: aborted, since the virtual machine is being ended"
    );
    rig.until(|| !Path::new(&path).exists()).await;
}

#[tokio::test]
async fn dump_without_an_end_is_recorded_as_failed() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(SOON * 10);
    rig.start(&rig.path("a.memory.dump"));
    rig.until_dumping().await;
    rig.jobs.abort(AbortReason::Exit);
    assert!(rig.failure().await.contains("the launcher is exiting"));
    rig.fake.kill_qemu(DOMAIN);
}

#[tokio::test]
async fn abort_before_the_dump_prevents_it() {
    let rig = Rig::with(Records {
        published: Some(Notify::new()),
        ..Records::default()
    })
    .await;
    rig.start(&rig.path("a.memory.dump"));
    rig.jobs.abort(AbortReason::Shutdown);
    let reason = rig.failure().await;
    assert!(
        reason.contains("the virtual machine is being shut down"),
        "{reason}"
    );
    assert_eq!(rig.fake.count(Call::CoreDump), 0);
    rig.jobs.abort(AbortReason::Exit);
    rig.jobs.ended().await;
}

#[tokio::test]
async fn dump_failure_is_recorded() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(SOON * 10);
    rig.start(&rig.path("a.memory.dump"));
    rig.until_dumping().await;
    rig.fake.fail_dump(
        DOMAIN,
        FakeDaemon::error(9, 10, "operation failed: no space"),
    );
    assert!(
        rig.failure()
            .await
            .ends_with("Message='operation failed: no space')")
    );
    assert_eq!(rig.fake.state(DOMAIN).unwrap().state, DomainState::Running);
}

#[tokio::test]
async fn dump_without_progress_is_aborted() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(Duration::from_secs(1 << 40));
    rig.start(&rig.path("a.memory.dump"));
    let reason = rig.failure().await;
    assert!(reason.contains("nothing was written for 1s"), "{reason}");
    assert!(rig.fake.count(Call::JobStats) > 1);
    rig.fake.kill_qemu(DOMAIN);
}

#[tokio::test]
async fn slow_dump_is_not_aborted() {
    let rig = Rig::new().await;
    rig.fake.set_dump_duration(STALL * 3);
    rig.start(&rig.path("a.memory.dump"));
    assert!(!rig.ended().await[1].failed);
}
