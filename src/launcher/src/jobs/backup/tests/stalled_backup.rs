//! Backups without progress, or without statistics.

use super::*;

const STALLING: ProgressTimes = ProgressTimes {
    report_interval: Duration::from_millis(20),
    stall_timeout: Duration::from_millis(300),
};

#[tokio::test]
async fn backup_without_progress_is_aborted_until_it_has_ended() {
    // Long enough for the second attempt on a slow machine.
    let stall_timeout = Duration::from_secs(2);
    let vm = RunningVm::with(
        XML,
        ProgressTimes {
            stall_timeout,
            ..STALLING
        },
    )
    .await;
    vm.fake.set_backup_duration(TEST_TIMEOUT * 10);
    let busy = FakeDaemon::error(68, 10, "Timed out during operation: cannot acquire lock");
    vm.fake.fail_next(Call::AbortJob, busy);
    vm.start("bk1", Mode::Push).await.unwrap();
    let record = vm.last_record().await;
    assert!(
        record.backup_msg.contains("nothing was written"),
        "{record:?}"
    );
    assert_eq!(vm.fake.count(Call::AbortJob), 2);
    vm.fake.set_backup_duration(Duration::ZERO);
    vm.start("bk2", Mode::Push).await.unwrap();
    assert!(
        !vm.last_record().await.failed,
        "libvirt has no job any more"
    );
}

#[tokio::test]
async fn stalled_backup_that_cannot_be_aborted_keeps_its_files() {
    let vm = RunningVm::with(XML, STALLING).await;
    vm.fake.set_backup_duration(TEST_TIMEOUT * 10);
    for _ in 0..10_000 {
        let busy = FakeDaemon::error(68, 10, "Timed out during operation: cannot acquire lock");
        vm.fake.fail_next(Call::AbortJob, busy);
    }
    vm.start("bk1", Mode::Push).await.unwrap();
    let record = vm.last_record().await;
    assert!(record.failed, "{record:?}");
    assert!(
        record.backup_msg.contains("libvirt does not end it"),
        "{record:?}"
    );
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(vm.files().len(), 1, "QEMU may still write to them");
}

/// Lets queries of statistics fail.
fn fail_statistics(vm: &RunningVm<Records>) {
    for _ in 0..10_000 {
        let error = FakeDaemon::error(38, 10, "cannot read statistics");
        vm.fake.fail_next(Call::JobStats, error);
    }
}

#[tokio::test]
async fn backup_without_statistics_is_aborted_on_request() {
    let vm = RunningVm::with(XML, STALLING).await;
    vm.start("bk1", Mode::Pull).await.unwrap();
    fail_statistics(&vm);
    vm.jobs.abort(AbortReason::Kill);
    let aborting = async {
        while vm.fake.count(Call::AbortJob) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, aborting).await.unwrap();
    vm.fake.kill_qemu(DOMAIN);
}

#[tokio::test]
async fn backup_without_statistics_is_abandoned() {
    let vm = RunningVm::with(XML, STALLING).await;
    vm.fake.set_backup_duration(TEST_TIMEOUT * 10);
    vm.start("bk1", Mode::Push).await.unwrap();
    fail_statistics(&vm);
    let record = vm.last_record().await;
    assert!(
        record.backup_msg.contains("libvirt does not end it"),
        "{record:?}"
    );
    assert!(vm.fake.count(Call::AbortJob) > 0);
}
