//! A VM that arrives by a migration: the notifications, and what happens when it does not arrive.

use libvirt::fake::{Arrival, Call, FakeDaemon};
use libvirt::{Detail, Event, LifecycleEvent, code, origin};
use virt_launcher::manager::{Command, CommandSuccess};

use crate::support::command_client::freeze;
use crate::support::migration_target_requests::{INCOMING_DOMAIN, prepare_target};
use crate::support::test_launcher::{DOMAIN, TestLauncher};

#[tokio::test(flavor = "multi_thread")]
async fn arrival_is_notified_in_order_and_ends_with_libvirts_job() {
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    prepare_target(&launcher, "a").await.unwrap();
    assert!(launcher.paths.share.join("migrationproxy").is_dir());
    assert_eq!(launcher.fake.count(Call::Define), 0);
    let error = launcher.sync_vm().await.unwrap_err();
    assert!(error.message().contains("arrive by a migration"));
    assert!(launcher.handler.notifications().is_empty());

    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher.notifications_until("ADDED").await;
    launcher
        .fake
        .finish_incoming(INCOMING_DOMAIN, Arrival::Running)
        .unwrap();
    let before = launcher.notifications_until("Running").await;
    let frozen = freeze(&launcher, 0).await.message;
    let expected = "failed to freeze VMI, VMI is currently during migration";
    assert_eq!(frozen, expected, "the source can still resume the VM");
    assert!(
        !before.iter().any(|line| line.contains("ended")),
        "{before:#?}"
    );
    let late = prepare_target(&launcher, "a").await.unwrap();
    assert_eq!(
        late,
        CommandSuccess::Unchanged,
        "nothing is prepared again for a VM that has arrived"
    );
    launcher.fake.end_incoming_job(DOMAIN);
    let notifications = launcher
        .notifications_until("migration=a PreCopy ended")
        .await;
    assert_eq!(
        notifications,
        [
            "ADDED uid=1234 Paused/Migration grace=5 migration=a PreCopy",
            "MODIFIED uid=1234 Running/Unknown grace=5 migration=a PreCopy",
            "MODIFIED uid=1234 Running/Unknown grace=5 migration=a PreCopy ended",
        ]
    );
    launcher.sync_vm().await.unwrap();
    assert_eq!(launcher.fake.count(Call::Start), 0, "the VM runs already");
}

/// For a domain that the launcher has seen before the connection ended, and for one that it has not.
#[tokio::test(flavor = "multi_thread")]
async fn arrival_during_a_restart_of_the_daemon_is_notified() {
    for is_seen in [true, false] {
        let launcher = TestLauncher::new().await;
        prepare_target(&launcher, "a").await.unwrap();
        if is_seen {
            launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
            launcher.notifications_until("ADDED").await;
        }
        launcher.fake.stop_daemon(libvirt::CloseReason::Eof);
        if !is_seen {
            launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
        }
        launcher
            .fake
            .finish_incoming(INCOMING_DOMAIN, Arrival::Running)
            .unwrap();
        launcher.fake.start_daemon();
        launcher.notifications_until("Running").await;
        launcher.fake.end_incoming_job(DOMAIN);
        let notifications = launcher
            .notifications_until("migration=a PreCopy ended")
            .await;
        let added = notifications
            .iter()
            .filter(|line| line.starts_with("ADDED"));
        assert_eq!(added.count(), 1, "{notifications:#?}");
        launcher.manager.run(Command::Pause).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arrival_is_notified_although_libvirt_does_not_answer_at_first() {
    for is_seen in [true, false] {
        let launcher = TestLauncher::new().await;
        prepare_target(&launcher, "a").await.unwrap();
        if is_seen {
            launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
            launcher.notifications_until("ADDED").await;
        }
        launcher.fake.stop_daemon(libvirt::CloseReason::Eof);
        if !is_seen {
            launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
        }
        launcher
            .fake
            .finish_incoming(INCOMING_DOMAIN, Arrival::Running)
            .unwrap();
        let busy = "Timed out during operation: cannot acquire state change lock";
        let busy = FakeDaemon::error(code::OPERATION_TIMEOUT, origin::QEMU, busy);
        launcher.fake.fail_next(Call::State, busy);
        launcher.fake.start_daemon();
        launcher.notifications_until("Running").await;
        launcher.fake.end_incoming_job(DOMAIN);
        launcher
            .notifications_until("migration=a PreCopy ended")
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_of_an_arrival_that_was_recovered_is_not_notified_again() {
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    launcher.fake.stop_daemon(libvirt::CloseReason::Eof);
    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher
        .fake
        .finish_incoming(INCOMING_DOMAIN, Arrival::Running)
        .unwrap();
    launcher.fake.start_daemon();
    // The last notification after the recovery.
    let before = launcher.notifications_until("MODIFIED").await.len();
    for (event, detail) in [
        (LifecycleEvent::Started, Detail::Migrated),
        (LifecycleEvent::Resumed, Detail::Migrated),
    ] {
        launcher.fake.publish(&Event::Lifecycle {
            domain: DOMAIN.into(),
            event,
            detail,
        });
    }
    launcher.manager.run(Command::Pause).await.unwrap();
    let notifications = launcher.notifications_until("Paused/User").await;
    assert_eq!(notifications.len(), before + 1, "{notifications:#?}");
    let added = notifications
        .iter()
        .filter(|line| line.starts_with("ADDED"));
    assert_eq!(added.count(), 1, "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_that_does_not_arrive_did_not_end_here() {
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher.notifications_until("ADDED").await;
    launcher.fake.kill_qemu(DOMAIN);
    let notifications = launcher.notifications_until("NonExistent").await;
    assert_eq!(notifications.len(), 2, "{notifications:#?}");
    assert!(notifications[1].starts_with("MODIFIED uid=1234 NoState/NonExistent"));
    assert!(!notifications[1].contains("ended"), "{notifications:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn target_that_libvirt_gives_up_without_an_event_ends_with_its_clean_up() {
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher.notifications_until("ADDED").await;
    launcher.fake.fail_incoming(DOMAIN);
    // The launcher's clean-up.
    let killed = launcher.manager.run(Command::Kill).await.unwrap();
    assert_eq!(killed, CommandSuccess::Unchanged);
    let notifications = launcher.notifications_until("NonExistent").await;
    assert_eq!(notifications.len(), 2, "{notifications:#?}");
    assert!(notifications[1].starts_with("MODIFIED uid=1234 NoState/NonExistent"));
}
