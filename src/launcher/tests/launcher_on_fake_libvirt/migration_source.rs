//! The source of a migration: success, failures, and the guest agent's probe during the migration.

use std::sync::Arc;
use std::time::Duration;

use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use libvirt::{CloseReason, DomainState, MigrationFlags, code, origin};
use proto::cmd::v1::GuestPingRequest;
use virt_launcher::manager::Command;

use crate::support::command_client::{client, vmi_request};
use crate::support::migration_commands::{
    TEN_MINUTE_MIGRATION, migrate, migration_notifications, wait_until_migrating,
};
use crate::support::test_launcher::{DOMAIN, launcher_with_running_vm};

#[tokio::test(flavor = "multi_thread")]
async fn migrated_vm_is_published_with_the_end_and_is_never_started_again() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(300),
        ..TEN_MINUTE_MIGRATION
    });
    assert!(migrate(&launcher, "m1").await.success);
    let notifications = launcher.notifications_until("ended").await;
    let shortened = migration_notifications(&notifications);
    assert_eq!(shortened[0], "Running/Unknown migration=m1 PreCopy");
    let last = shortened.last().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
    launcher.sync_vm().await.unwrap();
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Shutoff
    );
    let mut client = client(&launcher).await;
    let deleted = client.delete_virtual_machine(vmi_request()).await.unwrap();
    assert!(deleted.into_inner().success);
    let notifications = launcher.notifications_until("NonExistent").await;
    assert!(notifications.last().unwrap().ends_with("gone"));
    let migrated = |line: &&String| line.contains("Shutoff/Migrated");
    assert_eq!(
        notifications.iter().filter(migrated).count(),
        1,
        "{notifications:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_agent_probe_succeeds_while_the_vm_migrates() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(TEN_MINUTE_MIGRATION);
    let ping = GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    let mut client = client(&launcher).await;
    // No agent is connected.
    assert!(client.guest_ping(ping.clone()).await.is_err());
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    let answer = client.guest_ping(ping.clone()).await.unwrap().into_inner();
    assert!(answer.response.unwrap().success);
    // The event of the probe that failed above also contains `failed`, so that this waits for libvirt's text.
    let error = "internal error: client socket is closed";
    launcher.fake.fail_migration(
        DOMAIN,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::RPC, error),
    );
    launcher
        .notifications_until("client socket is closed")
        .await;
    assert!(
        client.guest_ping(ping).await.is_err(),
        "the migration has ended"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_has_libvirts_text_and_the_vm_runs_on() {
    let launcher = launcher_with_running_vm().await;
    let text = "internal error: process exited while connecting to monitor";
    launcher.fake.fail_next(
        Call::Migrate,
        FakeDaemon::error(code::INTERNAL_ERROR, origin::QEMU, text),
    );
    assert!(migrate(&launcher, "m1").await.success);
    let notifications = launcher.notifications_until("failed").await;
    let expected = format!(
        "Running/Unknown migration=m1 PreCopy ended failed: virError(Code=1, Domain=10, Message='{text}')"
    );
    assert_eq!(
        migration_notifications(&notifications).last().unwrap(),
        &expected
    );
    launcher.manager.run(Command::Pause).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_that_a_closed_connection_hides_is_read_from_libvirts_log() {
    const CLOSED: &str =
        "virError(Code=1, Domain=7, Message='internal error: client socket is closed')";
    let launcher = launcher_with_running_vm().await;
    let reason = "operation failed: migration of disk vda failed: No space left on device";
    let explained = format!("{CLOSED}; before that: {reason}");
    for (uid, logged, expected) in [
        ("m1", Some(reason), explained.as_str()),
        ("m2", None, CLOSED),
    ] {
        launcher.fake.set_migration(TEN_MINUTE_MIGRATION);
        assert!(migrate(&launcher, uid).await.success);
        wait_until_migrating(&launcher).await;
        if let Some(reason) = logged {
            let position = "qemuMigrationNBDReportMirrorError:798";
            launcher.migration_log.observe(position, reason);
        }
        let error = FakeDaemon::error(
            code::INTERNAL_ERROR,
            origin::RPC,
            "internal error: client socket is closed",
        );
        let failed = format!("migration={uid} PreCopy ended failed: ");
        launcher.fake.fail_migration(DOMAIN, error);
        let notifications = launcher.notifications_until(&failed).await;
        let last = migration_notifications(&notifications).pop().unwrap();
        assert!(last.ends_with(&format!("failed: {expected}")), "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_agent_probe_succeeds_while_the_vm_migrates_and_its_agent_is_silent() {
    let launcher = launcher_with_running_vm().await;
    let silent = |json: &str| {
        if json.contains("guest-ping") {
            std::thread::sleep(Duration::from_secs(5));
        }
        Ok("{}".to_owned())
    };
    launcher.fake.set_agent(DOMAIN, Some(Arc::new(silent)));
    launcher.fake.set_migration(TEN_MINUTE_MIGRATION);
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    let ping = GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    let answer = client(&launcher).await.guest_ping(ping).await.unwrap();
    assert!(answer.into_inner().response.unwrap().success);
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_that_was_paused_stays_paused_after_a_failure() {
    let launcher = launcher_with_running_vm().await;
    launcher.manager.run(Command::Pause).await.unwrap();
    launcher.notifications_until("Paused/User").await;
    let failure = FakeDaemon::error(code::OPERATION_FAILED, origin::QEMU, "operation failed: no");
    launcher.fake.fail_next(Call::Migrate, failure);
    assert!(migrate(&launcher, "m1").await.success);
    launcher
        .notifications_until("migration=m1 PreCopy ended failed")
        .await;
    assert_eq!(
        launcher.fake.state(DOMAIN).unwrap().state,
        DomainState::Paused
    );
    let expected = MigrationFlags::LIVE
        | MigrationFlags::PEER2PEER
        | MigrationFlags::PERSIST_DEST
        | MigrationFlags::PAUSED;
    assert_eq!(launcher.fake.migrations()[0].request.flags, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_fails_and_cleans_up_when_the_daemon_is_killed() {
    let launcher = launcher_with_running_vm().await;
    launcher.fake.set_migration(TEN_MINUTE_MIGRATION);
    assert!(migrate(&launcher, "m1").await.success);
    wait_until_migrating(&launcher).await;
    launcher.fake.stop_daemon(CloseReason::Eof);
    launcher.fake.start_daemon();
    let notifications = launcher.notifications_until("ended").await;
    let last = migration_notifications(&notifications).pop().unwrap();
    assert!(last.contains("client socket is closed"), "{last}");
    launcher.fake.set_migration(MigrationPlan::default());
    assert!(migrate(&launcher, "m2").await.success);
    launcher
        .notifications_until("migration=m2 PreCopy ended")
        .await;
}
