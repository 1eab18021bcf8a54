//! Commands to the source of a migration, and the notifications about the migration.

use std::time::Duration;

use libvirt::fake::MigrationPlan;
use proto::cmd::v1::{MigrationRequest, Response};
use serde_json::{Value, json};

use super::command_client::{client, vmi_message, vmi_request};
use super::test_launcher::{DOMAIN, TestLauncher, vmi_json};

/// A migration whose transfer takes ten minutes, longer than any test.
pub(crate) const TEN_MINUTE_MIGRATION: MigrationPlan = MigrationPlan {
    prepare: Duration::ZERO,
    transfer: Duration::from_secs(600),
    never_converges: false,
    stuck: false,
    abort_hangs: false,
    handed_over: false,
    recovery: Duration::ZERO,
};

/// The request for the migration `uid`.
pub(crate) fn migrate_request(uid: &str, options: Value) -> MigrationRequest {
    let mut vmi = vmi_json();
    vmi["status"]["migrationState"] = json!({"migrationUid": uid});
    MigrationRequest {
        vmi: vmi_message(&vmi),
        options: options.to_string().into_bytes(),
    }
}

/// Sends MigrateVirtualMachine for the migration `uid` with these options.
pub(crate) async fn migrate_with(launcher: &TestLauncher, uid: &str, options: Value) -> Response {
    let mut client = client(launcher).await;
    let answer = client.migrate_virtual_machine(migrate_request(uid, options));
    answer.await.unwrap().into_inner()
}

/// Sends MigrateVirtualMachine for the migration `uid` with usual timeouts.
pub(crate) async fn migrate(launcher: &TestLauncher, uid: &str) -> Response {
    migrate_with(
        launcher,
        uid,
        json!({"ProgressTimeout": 150, "CompletionTimeoutPerGiB": 150}),
    )
    .await
}

/// Sends CancelVirtualMachineMigration.
pub(crate) async fn cancel_migration(launcher: &TestLauncher) {
    let mut client = client(launcher).await;
    let answer = client.cancel_virtual_machine_migration(vmi_request());
    assert!(answer.await.unwrap().into_inner().success);
}

/// The notifications about migrations, without `MODIFIED`, the VM's UID and repetitions.
pub(crate) fn migration_notifications(notifications: &[String]) -> Vec<String> {
    let lines = notifications
        .iter()
        .filter(|line| line.contains("migration="));
    let mut shortened: Vec<String> = lines
        .map(|line| {
            line.replace("MODIFIED uid=1234 ", "")
                .replace(" grace=5", "")
        })
        .collect();
    shortened.dedup();
    shortened
}

/// Waits until the launcher has called libvirt for the migration.
pub(crate) async fn wait_until_migrating(launcher: &TestLauncher) {
    let wait = async {
        while !launcher.fake.is_migrating(DOMAIN) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait)
        .await
        .unwrap();
}
