//! Whether a VM stays paused after it has arrived by a migration.

use std::sync::Arc;

use libvirt::DomainState;
use libvirt::fake::Arrival;
use serde_json::json;
use virt_launcher::manager::Command;

use crate::support::migration_target_requests::{
    INCOMING_DOMAIN, prepare_target, target_sync_request,
};
use crate::support::test_launcher::{DOMAIN, TestLauncher, domain_state};

#[tokio::test(flavor = "multi_thread")]
async fn vm_that_its_owner_paused_stays_paused() {
    let launcher = TestLauncher::new().await;
    let paused = target_sync_request("a", |status| {
        status["conditions"] = json!([{"type": "Paused", "status": "True"}]);
    });
    let command = Command::SyncMigrationTarget(Arc::new(paused));
    launcher.manager.run(command).await.unwrap();
    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher
        .fake
        .finish_incoming(INCOMING_DOMAIN, Arrival::Paused)
        .unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("Paused/User grace=5 migration=a PreCopy ended")
        .await;
    launcher.sync_vm().await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Paused));
}

/// Its owner has unpaused it on the source after this pod was prepared.
#[tokio::test(flavor = "multi_thread")]
async fn vm_that_arrives_running_is_resumed_after_a_disk_error() {
    let launcher = TestLauncher::new().await;
    let paused = target_sync_request("a", |status| {
        status["conditions"] = json!([{"type": "Paused", "status": "True"}]);
    });
    let command = Command::SyncMigrationTarget(Arc::new(paused));
    launcher.manager.run(command).await.unwrap();
    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher
        .fake
        .finish_incoming(INCOMING_DOMAIN, Arrival::Running)
        .unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("migration=a PreCopy ended")
        .await;
    launcher.fake.io_error(DOMAIN, "ua-disk0");
    launcher.sync_vm().await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
}

/// Its owner has paused it on the source after this pod was prepared.
#[tokio::test(flavor = "multi_thread")]
async fn vm_that_arrives_paused_stays_paused() {
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    launcher.fake.begin_incoming(INCOMING_DOMAIN).unwrap();
    launcher
        .fake
        .finish_incoming(INCOMING_DOMAIN, Arrival::Paused)
        .unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("Paused/User grace=5 migration=a PreCopy ended")
        .await;
    launcher.sync_vm().await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Paused));
    launcher.manager.run(Command::Unpause).await.unwrap();
    assert_eq!(domain_state(&launcher), Some(DomainState::Running));
}
