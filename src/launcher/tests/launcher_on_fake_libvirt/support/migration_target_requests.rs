//! Requests to the target of a migration, and a launcher in which a domain has arrived.

use std::sync::Arc;

use kubevirt_api::vmi::Vmi;
use libvirt::fake::Arrival;
use serde_json::{Value, json};
use virt_launcher::manager::{Command, CommandResult, SyncRequest};

use super::test_launcher::{DOMAIN, TestLauncher, sync_request_for, vmi_json};

/// The XML of a domain that arrives.
pub(crate) const INCOMING_DOMAIN: &str = "<domain type='kvm'><name>default_vm1</name>\
    <uuid>c5f0a5bc-1322-45b2-9526-5886dc7e2740</uuid><devices><interface type='ethernet'>\
    <target dev='tap0'/><alias name='ua-default'/></interface></devices></domain>";

/// The sync request during the migration `uid`; `edit_status` changes the VMI's status.
pub(crate) fn target_sync_request(uid: &str, edit_status: impl FnOnce(&mut Value)) -> SyncRequest {
    let mut vmi = vmi_json();
    vmi["status"]["migrationTransport"] = json!("Unix");
    vmi["status"]["migrationState"] = json!({"migrationUid": uid});
    edit_status(&mut vmi["status"]);
    sync_request_for(Vmi::from_json(vmi.to_string().as_bytes()).unwrap())
}

/// Prepares the target of the migration `uid`.
pub(crate) async fn prepare_target(launcher: &TestLauncher, uid: &str) -> CommandResult {
    let request = target_sync_request(uid, |_| {});
    let command = Command::SyncMigrationTarget(Arc::new(request));
    launcher.manager.run(command).await
}

/// A launcher in which a domain has arrived by the migration `a`.
pub(crate) async fn launcher_with_arrived_domain(xml: &str) -> TestLauncher {
    let launcher = TestLauncher::new().await;
    prepare_target(&launcher, "a").await.unwrap();
    launcher.fake.begin_incoming(xml).unwrap();
    launcher
        .fake
        .finish_incoming(xml, Arrival::Running)
        .unwrap();
    launcher.fake.end_incoming_job(DOMAIN);
    launcher
        .notifications_until("migration=a PreCopy ended")
        .await;
    launcher
}
