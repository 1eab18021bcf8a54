//! Memory dump jobs: record, abort and failures.

use std::path::Path;
use std::time::Duration;

use libvirt::DomainState;
use libvirt::fake::{Call, FakeDaemon};
use tokio::sync::Notify;

use super::recorded_dumps::{Records, STALL_TIMEOUT};
use crate::jobs::running_test_vm::{DOMAIN, RunningVm, TEST_TIMEOUT};
use crate::jobs::{AbortReason, JobKind, JobStart};

#[tokio::test]
async fn dump_is_recorded_at_its_start_and_end() {
    let vm = RunningVm::new().await;
    let path = vm.path("a.memory.dump");
    assert_eq!(vm.start(&path), JobStart::Started);
    let records = vm.records_after_end().await;
    assert_eq!(records.len(), 2, "{records:?}");
    assert!(records[0].start_timestamp.is_some() && !records[0].completed);
    assert!(records[1].completed && !records[1].failed);
    assert!(Path::new(&path).exists());
    assert_eq!(vm.start(&path), JobStart::AlreadyDone);
    assert_eq!(vm.records_after_end().await.len(), 2);
    let other = vm.path("b.memory.dump");
    assert_eq!(vm.start(&other), JobStart::Started);
    vm.records_after_end().await;
    assert!(!Path::new(&path).exists(), "the earlier dump is removed");
}

#[tokio::test]
async fn only_one_dump_runs_at_a_time() {
    let vm = RunningVm::new().await;
    vm.fake.set_dump_duration(Duration::from_millis(300));
    assert_eq!(vm.start(&vm.path("a.memory.dump")), JobStart::Started);
    vm.wait_until_dumping().await;
    for (name, result) in [
        ("a.memory.dump", JobStart::AlreadyRunning),
        ("b.memory.dump", JobStart::Busy(JobKind::MemoryDump)),
    ] {
        assert_eq!(vm.start(&vm.path(name)), result, "{name}");
    }
    assert_eq!(*vm.jobs.running().borrow(), Some(JobKind::MemoryDump));
    assert_eq!(vm.records_after_end().await.len(), 2);
    assert_eq!(vm.fake.count(Call::CoreDump), 1);
}

#[tokio::test]
async fn guest_is_not_paused_before_the_record_is_published() {
    let vm = RunningVm::with(Records {
        published: Some(Notify::new()),
        ..Records::default()
    })
    .await;
    vm.start(&vm.path("a.memory.dump"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(vm.fake.count(Call::CoreDump), 0);
    vm.records.published.as_ref().unwrap().notify_one();
    assert!(vm.records_after_end().await[1].completed);
}

#[tokio::test]
async fn every_failure_completes_the_record() {
    let error = || FakeDaemon::error(1, 7, "internal error: no");
    for call in [Call::Connect, Call::Lookup, Call::CoreDump] {
        let vm = RunningVm::new().await;
        vm.fake.fail_next(call, error());
        vm.start(&vm.path("a.memory.dump"));
        assert_eq!(
            vm.failure().await,
            "Domain memory dump failed: virError(Code=1, Domain=7, Message='internal error: no')"
        );
    }
    let vm = RunningVm::with(Records {
        panics: true,
        ..Records::default()
    })
    .await;
    vm.start(&vm.path("a.memory.dump"));
    assert!(vm.failure().await.contains("fault of the launcher"));
}

#[tokio::test]
async fn missing_directory_does_not_pause_the_guest() {
    let vm = RunningVm::new().await;
    vm.start("/nonexistent/x.dump");
    let reason = vm.failure().await;
    assert!(
        reason.contains("/nonexistent is not a writable directory"),
        "{reason}"
    );
    assert_eq!(vm.fake.count(Call::CoreDump), 0);
}

#[tokio::test]
async fn aborted_dump_has_a_reason_and_no_file() {
    let vm = RunningVm::new().await;
    vm.fake.set_dump_duration(TEST_TIMEOUT * 10);
    let path = vm.path("a.memory.dump");
    vm.start(&path);
    vm.wait_until(|| Path::new(&path).exists()).await;
    vm.jobs.abort(AbortReason::Kill);
    vm.jobs.abort(AbortReason::Exit);
    let is_aborted = || vm.fake.count(Call::AbortJob) == 1;
    vm.wait_until(is_aborted).await;
    vm.fake.kill_qemu(DOMAIN);
    assert_eq!(
        vm.failure().await,
        "Domain memory dump failed: aborted, since the virtual machine is being ended"
    );
    vm.wait_until(|| !Path::new(&path).exists()).await;
}

#[tokio::test]
async fn aborted_dump_that_does_not_end_is_recorded_as_failed() {
    let vm = RunningVm::new().await;
    vm.fake.set_dump_duration(TEST_TIMEOUT * 10);
    vm.start(&vm.path("a.memory.dump"));
    vm.wait_until_dumping().await;
    vm.jobs.abort(AbortReason::Exit);
    assert!(vm.failure().await.contains("the launcher is exiting"));
    vm.fake.kill_qemu(DOMAIN);
}

#[tokio::test]
async fn abort_before_the_dump_prevents_it() {
    let vm = RunningVm::with(Records {
        published: Some(Notify::new()),
        ..Records::default()
    })
    .await;
    vm.start(&vm.path("a.memory.dump"));
    vm.jobs.abort(AbortReason::Shutdown);
    let reason = vm.failure().await;
    assert!(
        reason.contains("the virtual machine is being shut down"),
        "{reason}"
    );
    assert_eq!(vm.fake.count(Call::CoreDump), 0);
    vm.jobs.abort(AbortReason::Exit);
    vm.jobs.wait_until_ended().await;
}

#[tokio::test]
async fn dump_failure_is_recorded() {
    let vm = RunningVm::new().await;
    vm.fake.set_dump_duration(TEST_TIMEOUT * 10);
    vm.start(&vm.path("a.memory.dump"));
    vm.wait_until_dumping().await;
    vm.fake.fail_dump(
        DOMAIN,
        FakeDaemon::error(9, 10, "operation failed: no space"),
    );
    assert!(
        vm.failure()
            .await
            .ends_with("Message='operation failed: no space')")
    );
    assert_eq!(vm.fake.state(DOMAIN).unwrap().state, DomainState::Running);
}

#[tokio::test]
async fn dump_without_progress_is_aborted() {
    let vm = RunningVm::new().await;
    vm.fake.set_dump_duration(Duration::from_secs(1 << 40));
    vm.start(&vm.path("a.memory.dump"));
    let reason = vm.failure().await;
    assert!(reason.contains("nothing was written for 1s"), "{reason}");
    assert!(vm.fake.count(Call::JobStats) > 1);
    vm.fake.kill_qemu(DOMAIN);
}

#[tokio::test]
async fn slow_dump_is_not_aborted() {
    let vm = RunningVm::new().await;
    vm.fake.set_dump_duration(STALL_TIMEOUT * 3);
    vm.start(&vm.path("a.memory.dump"));
    assert!(!vm.records_after_end().await[1].failed);
}
