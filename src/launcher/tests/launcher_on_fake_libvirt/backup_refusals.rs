//! Requests for backups and checkpoints that the launcher refuses, and the reasons in the responses.

use std::time::Duration;

use libvirt::fake::Call;
use proto::cmd::v1::{BackupRequest, RedefineCheckpointRequest};
use serde_json::{Value, json};

use crate::support::command_client::{
    backup, backup_start_options, client, vmi_with_block_tracking,
};
use crate::support::test_launcher::TestLauncher;

#[tokio::test(flavor = "multi_thread")]
async fn unusable_backup_requests_are_answered_with_a_reason() {
    let launcher = TestLauncher::new().await;
    launcher.sync_vm().await.unwrap();
    for (state, options, reason) in [
        (
            "Initializing",
            backup_start_options(),
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
            backup_start_options(),
            "no disk of the domain has its changed blocks tracked",
        ),
    ] {
        let answer = backup(&launcher, state, options.clone()).await;
        assert!(!answer.success, "{options}");
        assert!(answer.message.contains(reason), "{options}: {answer:?}");
    }
    let without_vmi = BackupRequest::default();
    let answer = client(&launcher)
        .await
        .backup_virtual_machine(without_vmi)
        .await;
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
        let without_name = RedefineCheckpointRequest {
            vmi: vmi_with_block_tracking(state),
            checkpoint: b"{}".to_vec(),
        };
        let answer = client(&launcher)
            .await
            .redefine_checkpoint(without_name)
            .await;
        let answer = answer.unwrap().into_inner();
        assert!(!answer.checkpoint_invalid);
        assert_eq!(answer.response.unwrap().message, reason);
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(launcher.fake.count(Call::BeginBackup), 0);
}
