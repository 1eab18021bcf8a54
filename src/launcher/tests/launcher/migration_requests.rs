//! Requests of a migration's source, and the records of it in notifications.

use std::time::Duration;

use libvirt::fake::MigrationPlan;
use proto::cmd::v1::{MigrationRequest, Response, Vmi};
use serde_json::{Value, json};
use virt_launcher::manager::Command;

use crate::command_client::{client, vmi_request};
use crate::test_launcher::{DOMAIN, TestLauncher, sync, vmi_json};

pub(crate) const NEVER_ENDING: MigrationPlan = MigrationPlan {
    prepare: Duration::ZERO,
    transfer: Duration::from_secs(600),
    never_converges: false,
    stuck: false,
    abort_hangs: false,
    handed_over: false,
    recovery: Duration::ZERO,
};

pub(crate) async fn running() -> TestLauncher {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    launcher.notifications_until("Running").await;
    launcher
}

pub(crate) fn request(uid: &str, options: Value) -> MigrationRequest {
    let mut vmi = vmi_json();
    vmi["status"]["migrationState"] = json!({"migrationUid": uid});
    MigrationRequest {
        vmi: Some(Vmi {
            vmi_json: vmi.to_string().into_bytes(),
        }),
        options: options.to_string().into_bytes(),
    }
}

pub(crate) async fn migrate_with(launcher: &TestLauncher, uid: &str, options: Value) -> Response {
    let mut client = client(launcher).await;
    let answer = client.migrate_virtual_machine(request(uid, options));
    answer.await.unwrap().into_inner()
}

pub(crate) async fn migrate(launcher: &TestLauncher, uid: &str) -> Response {
    migrate_with(
        launcher,
        uid,
        json!({"ProgressTimeout": 150, "CompletionTimeoutPerGiB": 150}),
    )
    .await
}

pub(crate) async fn cancel(launcher: &TestLauncher) {
    let mut client = client(launcher).await;
    let answer = client.cancel_virtual_machine_migration(vmi_request());
    assert!(answer.await.unwrap().into_inner().success);
}

/// What virt-handler heard of migrations, repetitions left out.
pub(crate) fn records(notifications: &[String]) -> Vec<String> {
    let lines = notifications
        .iter()
        .filter(|line| line.contains("migration="));
    let mut records: Vec<String> = lines
        .map(|line| {
            line.replace("MODIFIED uid=1234 ", "")
                .replace(" grace=5", "")
        })
        .collect();
    records.dedup();
    records
}

pub(crate) async fn until_migrating(launcher: &TestLauncher) {
    let calling = async {
        while !launcher.fake.is_migrating(DOMAIN) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), calling)
        .await
        .unwrap();
}
