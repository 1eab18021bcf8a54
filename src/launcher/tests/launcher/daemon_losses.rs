//! libvirt's daemon restarts, its errors, and a QEMU that is killed.

use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon};
use libvirt::{CloseReason, DomainState};
use virt_launcher::manager::{Command, CommandEffect, OpError};

use crate::fake_libvirt_rig::{DOMAIN, Rig, count, state, sync};
use crate::scripted_agent::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn disk_error_during_a_restart_of_the_daemon_is_an_alert() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.io_error(DOMAIN, "ua-data");
    rig.fake
        .set_disk_error(DOMAIN, "vda", libvirt::DiskFault::NoSpace);
    rig.fake.start_daemon();
    let notifications = rig.notifications_until("EVENT").await;
    let full = "EVENT IOerror: VM Paused due to not enough space on volume: vda";
    assert_eq!(count(&notifications, full), 1, "{notifications:#?}");
    let asked = rig.fake.count(Call::DiskErrors);
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.start_daemon();
    eventually("the state after the restart is read", async || {
        rig.fake.count(Call::DiskErrors) > asked
    })
    .await;
    let after = rig.notifications(notifications.len()).await;
    assert_eq!(after, notifications, "it is as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn domain_is_not_published_again_while_its_disk_errors_are_unknown() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.fake.stop_daemon(CloseReason::Eof);
    rig.fake.io_error(DOMAIN, "ua-data");
    rig.fake
        .set_disk_error(DOMAIN, "vda", libvirt::DiskFault::NoSpace);
    let refusal = FakeDaemon::error(1, 10, "internal error: QEMU gave no answer");
    rig.fake.fail_next(Call::DiskErrors, refusal);
    rig.fake.start_daemon();
    let notifications = rig.notifications_until("EVENT").await;
    assert_eq!(rig.fake.count(Call::DiskErrors), 2);
    assert_eq!(
        count(&notifications, "Paused/IOError"),
        1,
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_fails_when_nobody_knows_whether_the_vm_runs() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.fake.delay(Call::State, Duration::from_secs(3));
    let error = rig.manager.run(Command::Kill).await.unwrap_err();
    assert!(error.message().contains("gave no answer"), "{error}");
    rig.fake.delay(Call::State, Duration::ZERO);
    rig.manager.run(Command::Kill).await.unwrap();
    assert_eq!(state(&rig), Some(DomainState::Shutoff));
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_command_is_repeated_once() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    let unsent = FakeDaemon::error(1, 7, "internal error: client socket is closed");
    rig.fake.fail_next(Call::Suspend, unsent);
    let answer = rig.manager.run(Command::Pause).await.unwrap();
    assert_eq!(answer, CommandEffect::Changed);
    assert_eq!(state(&rig), Some(DomainState::Paused));
}

#[tokio::test(flavor = "multi_thread")]
async fn libvirts_errors_keep_code_and_text() {
    let rig = Rig::new().await;
    rig.fake
        .fail_next(Call::Define, FakeDaemon::error(27, 20, "XML error: no"));
    let error = rig.manager.run(Command::sync(sync())).await.unwrap_err();
    assert_eq!(
        error.message(),
        "LibvirtError(Code=27, Domain=20, Message='XML error: no')"
    );
    assert_eq!(state(&rig), None);
    let error = rig.manager.run(Command::Pause).await.unwrap_err();
    assert!(matches!(*error, OpError::NotFound));
    assert!(
        rig.manager
            .run(Command::Reset)
            .await
            .unwrap_err()
            .message()
            .starts_with("LibvirtError(Code=42, ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_qemu_is_reported_as_crashed() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.fake.kill_qemu(DOMAIN);
    rig.notifications_until("Shutoff/Crashed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_is_restored_and_events_continue() {
    let rig = Rig::new().await;
    rig.manager.run(Command::sync(sync())).await.unwrap();
    rig.notifications_until("Running").await;
    rig.fake.stop_daemon(CloseReason::Eof);
    assert!(rig.manager.run(Command::Pause).await.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
    rig.fake.start_daemon();
    let pausing = async {
        while rig.manager.run(Command::Pause).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), pausing)
        .await
        .unwrap();
    rig.notifications_until("Paused/User").await;
}
