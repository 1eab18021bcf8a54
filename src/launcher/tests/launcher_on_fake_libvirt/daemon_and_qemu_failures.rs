//! Restarts and errors of libvirt's daemon, and a QEMU that is killed.

use std::time::{Duration, Instant};

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{CloseReason, DomainState, code, origin};
use virt_launcher::manager::{Command, CommandError, CommandSuccess};

use crate::support::test_launcher::{
    DOMAIN, TestLauncher, count_containing, domain_state, wait_for,
};

#[tokio::test(flavor = "multi_thread")]
async fn disk_error_during_a_restart_of_the_daemon_is_an_alert() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.io_error(DOMAIN, "ua-data");
    launcher
        .fake
        .set_disk_error(DOMAIN, "vda", libvirt::DiskFault::NoSpace);
    launcher.fake.start_daemon();
    let notifications = launcher.notifications_until("EVENT").await;
    let expected = "EVENT IOerror: VM Paused due to not enough space on volume: vda";
    assert_eq!(
        count_containing(&notifications, expected),
        1,
        "{notifications:#?}"
    );
    let reads = launcher.fake.count(Call::DiskErrors);
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    wait_for("the disk errors to be read after the restart", async || {
        launcher.fake.count(Call::DiskErrors) > reads
    })
    .await;
    let after = launcher.notifications(notifications.len()).await;
    assert_eq!(after, notifications, "an unchanged state is not notified");
}

#[tokio::test(flavor = "multi_thread")]
async fn domain_is_not_published_again_while_its_disk_errors_are_unknown() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.io_error(DOMAIN, "ua-data");
    launcher
        .fake
        .set_disk_error(DOMAIN, "vda", libvirt::DiskFault::NoSpace);
    let error = FakeDaemon::error(
        code::INTERNAL_ERROR,
        origin::QEMU,
        "internal error: QEMU gave no answer",
    );
    launcher.fake.fail_next(Call::DiskErrors, error);
    launcher.fake.start_daemon();
    let notifications = launcher.notifications_until("EVENT").await;
    assert_eq!(launcher.fake.count(Call::DiskErrors), 2);
    assert_eq!(
        count_containing(&notifications, "Paused/IOError"),
        1,
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn domain_that_could_not_be_read_after_an_event_is_read_again() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    let error = FakeDaemon::error(
        code::INTERNAL_ERROR,
        origin::QEMU,
        "internal error: QEMU gave no answer",
    );
    launcher.fake.fail_next(Call::State, error);
    // No other event follows the guest's pause.
    let paused_at = Instant::now();
    launcher.fake.io_error(DOMAIN, "ua-data");
    let notifications = launcher.notifications_until("Paused/IOError").await;
    assert_eq!(
        count_containing(&notifications, "Paused/IOError"),
        1,
        "{notifications:#?}"
    );
    let took = paused_at.elapsed();
    assert!(
        took > Duration::from_millis(900),
        "the read after the event failed: {took:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_fails_when_the_state_of_the_vm_is_unknown() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.fake.delay(Call::State, Duration::from_secs(3));
    let error = launcher.manager.run(Command::Kill).await.unwrap_err();
    assert!(error.message().contains("gave no answer"), "{error}");
    launcher.fake.delay(Call::State, Duration::ZERO);
    launcher.manager.run(Command::Kill).await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Shutoff));
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_command_is_repeated_once() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    let unsent = FakeDaemon::error(
        code::INTERNAL_ERROR,
        origin::RPC,
        "internal error: client socket is closed",
    );
    launcher.fake.fail_next(Call::Suspend, unsent);
    let answer = launcher.manager.run(Command::Pause).await.unwrap();
    assert_eq!(answer, CommandSuccess::Changed);
    assert_eq!(domain_state(&launcher), Some(DomainState::Paused));
}

#[tokio::test(flavor = "multi_thread")]
async fn libvirts_errors_keep_code_and_text() {
    let launcher = TestLauncher::new().await;
    launcher.fake.fail_next(
        Call::Define,
        FakeDaemon::error(code::XML_ERROR, origin::DOMAIN, "XML error: no"),
    );
    let error = launcher.sync_vm().await.unwrap_err();
    assert_eq!(
        error.message(),
        "LibvirtError(Code=27, Domain=20, Message='XML error: no')"
    );
    assert_eq!(domain_state(&launcher), None);
    let error = launcher.manager.run(Command::Pause).await.unwrap_err();
    assert!(matches!(*error, CommandError::NotFound));
    assert!(
        launcher
            .manager
            .run(Command::Reset)
            .await
            .unwrap_err()
            .message()
            .starts_with("LibvirtError(Code=42, ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_qemu_is_reported_as_crashed() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.fake.kill_qemu(DOMAIN);
    launcher.notifications_until("Shutoff/Crashed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_is_restored_and_events_continue() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    launcher.notifications_until("Running").await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    assert!(launcher.manager.run(Command::Pause).await.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
    launcher.fake.start_daemon();
    let pause = async {
        while launcher.manager.run(Command::Pause).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), pause)
        .await
        .unwrap();
    launcher.notifications_until("Paused/User").await;
}
