//! The source of a migration over the command socket, and what virt-handler hears of it.

use std::sync::Arc;
use std::time::Duration;

use libvirt::DomainState;
use libvirt::fake::{Call, FakeDaemon, MigrationPlan};
use proto::cmd::v1::GuestPingRequest;
use virt_launcher::manager::Command;

use crate::command_client::{client, vmi_request};
use crate::migration_requests::{NEVER_ENDING, migrate, records, running, until_migrating};
use crate::test_launcher::{DOMAIN, sync};

#[tokio::test(flavor = "multi_thread")]
async fn migrated_vm_is_published_with_the_end_and_is_never_started_again() {
    let launcher = running().await;
    launcher.fake.set_migration(MigrationPlan {
        transfer: Duration::from_millis(300),
        ..NEVER_ENDING
    });
    assert!(migrate(&launcher, "m1").await.success);
    let notifications = launcher.notifications_until("ended").await;
    let records = records(&notifications);
    assert_eq!(records[0], "Running/Unknown migration=m1 PreCopy");
    let last = records.last().unwrap();
    assert_eq!(last, "Shutoff/Migrated migration=m1 PreCopy ended");
    launcher.manager.run(Command::sync(sync())).await.unwrap();
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
    let launcher = running().await;
    launcher.fake.set_migration(NEVER_ENDING);
    let ping = GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    let mut client = client(&launcher).await;
    // No agent is connected.
    assert!(client.guest_ping(ping.clone()).await.is_err());
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    let answer = client.guest_ping(ping.clone()).await.unwrap().into_inner();
    assert!(answer.response.unwrap().success);
    // The probe that failed is an event with other words.
    let error = "internal error: client socket is closed";
    launcher
        .fake
        .fail_migration(DOMAIN, FakeDaemon::error(1, 7, error));
    launcher
        .notifications_until("client socket is closed")
        .await;
    assert!(client.guest_ping(ping).await.is_err(), "it has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_has_libvirts_text_and_the_vm_runs_on() {
    let launcher = running().await;
    let text = "internal error: process exited while connecting to monitor";
    launcher
        .fake
        .fail_next(Call::Migrate, FakeDaemon::error(1, 10, text));
    assert!(migrate(&launcher, "m1").await.success);
    let notifications = launcher.notifications_until("failed").await;
    let expected = format!(
        "Running/Unknown migration=m1 PreCopy ended failed: virError(Code=1, Domain=10, Message='{text}')"
    );
    assert_eq!(records(&notifications).last().unwrap(), &expected);
    launcher.manager.run(Command::Pause).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_that_a_closed_connection_hides_is_read_from_libvirts_log() {
    const CLOSED: &str =
        "virError(Code=1, Domain=7, Message='internal error: client socket is closed')";
    let launcher = running().await;
    let reason = "operation failed: migration of disk vda failed: No space left on device";
    let explained = format!("{CLOSED}; before that: {reason}");
    for (uid, logged, expected) in [
        ("m1", Some(reason), explained.as_str()),
        ("m2", None, CLOSED),
    ] {
        launcher.fake.set_migration(NEVER_ENDING);
        assert!(migrate(&launcher, uid).await.success);
        until_migrating(&launcher).await;
        if let Some(reason) = logged {
            let position = "qemuMigrationNBDReportMirrorError:798";
            launcher.migration_log.observe(position, reason);
        }
        let error = FakeDaemon::error(1, 7, "internal error: client socket is closed");
        let failed = format!("migration={uid} PreCopy ended failed: ");
        launcher.fake.fail_migration(DOMAIN, error);
        let notifications = launcher.notifications_until(&failed).await;
        let last = records(&notifications).pop().unwrap();
        assert!(last.ends_with(&format!("failed: {expected}")), "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_agent_probe_succeeds_while_the_vm_migrates_and_its_agent_is_silent() {
    let launcher = running().await;
    let silent = |json: &str| {
        if json.contains("guest-ping") {
            std::thread::sleep(Duration::from_secs(5));
        }
        Ok("{}".to_owned())
    };
    launcher.fake.set_agent(DOMAIN, Some(Arc::new(silent)));
    launcher.fake.set_migration(NEVER_ENDING);
    assert!(migrate(&launcher, "m1").await.success);
    until_migrating(&launcher).await;
    let ping = GuestPingRequest {
        domain_name: DOMAIN.into(),
        timeout_seconds: 1,
    };
    let answer = client(&launcher).await.guest_ping(ping).await.unwrap();
    assert!(answer.into_inner().response.unwrap().success);
}
