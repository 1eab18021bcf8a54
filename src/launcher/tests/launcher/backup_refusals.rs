//! Requests for backups and checkpoints that the launcher refuses, and the reasons that it answers with.

use std::time::Duration;

use libvirt::fake::Call;
use proto::cmd::v1::{BackupRequest, RedefineCheckpointRequest};
use serde_json::{Value, json};
use virt_launcher::manager::Command;

use crate::command_client::{backup, backup_start, client, vmi_with_tracking};
use crate::test_launcher::{TestLauncher, sync};

#[tokio::test(flavor = "multi_thread")]
async fn unusable_backup_requests_are_answered_with_a_reason() {
    let launcher = TestLauncher::new().await;
    launcher.manager.run(Command::sync(sync())).await.unwrap();
    for (state, options, part) in [
        (
            "Initializing",
            backup_start(),
            "ChangedBlockTracking is not enabled",
        ),
        ("Enabled", Value::Null, "cannot be read"),
        ("Enabled", json!({}), "none of Start, Export, Abort"),
        (
            "Enabled",
            json!({ "cmd": "Export", "mode": "Push" }),
            "only a backup in mode Pull",
        ),
        (
            "Enabled",
            json!({ "cmd": "Export", "mode": "Pull" }),
            "backupName is missing",
        ),
        (
            "Enabled",
            json!({ "cmd": "Abort" }),
            "failed to abort backup: could not find",
        ),
        (
            "Enabled",
            backup_start(),
            "no disk of the domain has its changed blocks tracked",
        ),
    ] {
        let answer = backup(&launcher, state, options.clone()).await;
        assert!(!answer.success, "{options}");
        assert!(answer.message.contains(part), "{options}: {answer:?}");
    }
    let nobody = BackupRequest::default();
    let answer = client(&launcher).await.backup_virtual_machine(nobody).await;
    assert!(
        answer
            .unwrap()
            .into_inner()
            .message
            .contains("No valid vmi")
    );
    for (state, reason) in [
        ("Enabled", "the checkpoint has no name"),
        (
            "Disabled",
            "Redefine checkpoint failed: ChangedBlockTracking is not enabled",
        ),
    ] {
        let empty = RedefineCheckpointRequest {
            vmi: vmi_with_tracking(state),
            checkpoint: b"{}".to_vec(),
        };
        let answer = client(&launcher).await.redefine_checkpoint(empty).await;
        let answer = answer.unwrap().into_inner();
        assert!(!answer.checkpoint_invalid);
        assert_eq!(answer.response.unwrap().message, reason);
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(launcher.fake.count(Call::BeginBackup), 0);
}
