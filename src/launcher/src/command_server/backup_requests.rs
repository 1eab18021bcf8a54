//! Handles BackupVirtualMachine and RedefineCheckpoint, whose options are JSON.

use std::path::PathBuf;

use jiff::Timestamp;
use kubevirt_api::vmi::Vmi;
use proto::cmd::v1::Response;
use serde::Deserialize;

use super::{failed, ok};
use crate::jobs::{
    BackupFields, BackupId, BackupRequest, BackupRequestError, Checkpoint, ExportRequest, Mode,
};
use crate::manager::{Command, CommandError, CommandResult, Manager};

/// The state in the VMI's status when the disks have their bitmaps of changed blocks.
const TRACKING_ENABLED: &str = "Enabled";

/// The options of a request are invalid.
#[derive(Debug, thiserror::Error)]
enum OptionsError {
    #[error("the options of the backup cannot be read: {0}")]
    Backup(serde_json::Error),
    #[error("the checkpoint cannot be read: {0}")]
    Checkpoint(serde_json::Error),
    #[error("the backup's cmd {0:?} is none of Start, Export, Abort")]
    Command(String),
    #[error("the backup's mode {0:?} is neither Push nor Pull")]
    Mode(String),
    #[error("only a backup in mode Pull can be exported")]
    NotPull,
    #[error("the checkpoint has no name")]
    MissingCheckpointName,
    #[error(transparent)]
    Request(#[from] BackupRequestError),
}

/// `BackupOptions` of KubeVirt's `backup.kubevirt.io/v1alpha1`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Options {
    backup_name: String,
    cmd: String,
    mode: String,
    backup_start_time: Option<Timestamp>,
    incremental: Option<String>,
    target_path: Option<PathBuf>,
    skip_quiesce: bool,
    export_server_addr: String,
    export_server_name: String,
    backup_key: String,
    backup_cert: String,
    #[serde(rename = "caCert")]
    ca_cert: String,
}

/// KubeVirt's `BackupCheckpoint`; its volumes are not needed.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CheckpointOptions {
    name: String,
    creation_time: Option<Timestamp>,
}

/// Starts, exports or aborts a backup.
pub(super) async fn backup(manager: &Manager, vmi: &Vmi, options: &[u8]) -> Response {
    if !tracks_changed_blocks(vmi) {
        return failed("Backup failed ChangedBlockTracking is not enabled");
    }
    match command(vmi, options) {
        Ok(command) => respond(manager.run(command).await),
        Err(error) => failed(error),
    }
}

/// Redefines a checkpoint. Returns the response, and whether the checkpoint is invalid.
pub(super) async fn redefine_checkpoint(
    manager: &Manager,
    vmi: &Vmi,
    checkpoint: &[u8],
) -> (Response, bool) {
    // The checkpoint is not invalid: its bitmaps are checked once the images for changed blocks exist.
    if !tracks_changed_blocks(vmi) {
        let reason = "Redefine checkpoint failed: ChangedBlockTracking is not enabled";
        return (failed(reason), false);
    }
    let checkpoint = match self::checkpoint(checkpoint) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return (failed(error), false),
    };
    let outcome = manager.run(Command::RedefineCheckpoint(checkpoint)).await;
    let is_invalid = match &outcome {
        Err(error) => matches!(&**error, CommandError::Checkpoint(error) if error.is_invalid()),
        Ok(_) => false,
    };
    (respond(outcome), is_invalid)
}

fn tracks_changed_blocks(vmi: &Vmi) -> bool {
    let tracking = vmi.status.changed_block_tracking.as_ref();
    tracking.is_some_and(|tracking| tracking.state == TRACKING_ENABLED)
}

/// The response to a backup command. libvirt's errors have the form that KubeVirt's launcher uses for backups.
fn respond(outcome: CommandResult) -> Response {
    match outcome {
        Ok(_) => ok(),
        Err(error) => failed(error),
    }
}

fn command(vmi: &Vmi, json: &[u8]) -> Result<Command, OptionsError> {
    let options: Options = serde_json::from_slice(json).map_err(OptionsError::Backup)?;
    let id = BackupId {
        name: options.backup_name.clone(),
        start_time: options.backup_start_time,
    };
    match options.cmd.as_str() {
        "Start" => start(vmi, id, options),
        "Export" => export(id, options),
        "Abort" => Ok(Command::AbortBackup(id)),
        other => Err(OptionsError::Command(other.to_owned())),
    }
}

fn start(vmi: &Vmi, id: BackupId, options: Options) -> Result<Command, OptionsError> {
    let request = BackupRequest::new(BackupFields {
        id,
        vmi_name: vmi.metadata.name.clone(),
        mode: mode(&options.mode)?,
        target_path: options.target_path,
        incremental: options.incremental,
        skip_quiesce: options.skip_quiesce,
        persistent_tpm: vmi.has_persistent_tpm(),
    })?;
    Ok(Command::StartBackup(Box::new(request)))
}

fn export(id: BackupId, options: Options) -> Result<Command, OptionsError> {
    if mode(&options.mode)? != Mode::Pull {
        return Err(OptionsError::NotPull);
    }
    let fields = [
        ("backupName", &id.name),
        ("exportServerAddr", &options.export_server_addr),
        ("exportServerName", &options.export_server_name),
        ("backupKey", &options.backup_key),
        ("backupCert", &options.backup_cert),
        ("caCert", &options.ca_cert),
    ];
    if let Some((name, _)) = fields.iter().find(|(_, text)| text.is_empty()) {
        return Err(BackupRequestError::Missing(name).into());
    }
    if id.start_time.is_none() {
        return Err(BackupRequestError::Missing("backupStartTime").into());
    }
    Ok(Command::ExportBackup(Box::new(ExportRequest {
        id,
        address: options.export_server_addr,
        server_name: options.export_server_name,
        ca: options.ca_cert,
        certificate: options.backup_cert,
        key: options.backup_key,
    })))
}

fn mode(mode: &str) -> Result<Mode, OptionsError> {
    match mode {
        "Push" => Ok(Mode::Push),
        "Pull" => Ok(Mode::Pull),
        other => Err(OptionsError::Mode(other.to_owned())),
    }
}

fn checkpoint(json: &[u8]) -> Result<Checkpoint, OptionsError> {
    let options: CheckpointOptions =
        serde_json::from_slice(json).map_err(OptionsError::Checkpoint)?;
    if options.name.is_empty() {
        return Err(OptionsError::MissingCheckpointName);
    }
    Ok(Checkpoint {
        name: options.name,
        creation_time: options.creation_time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &str) -> Result<Command, String> {
        let vmi = r#"{"metadata":{"name":"vm1","namespace":"default","uid":"1"},"spec":{}}"#;
        let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
        command(&vmi, options.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read_as_kubevirt_writes_them() {
        let start = r#"{"backupName":"bk1","cmd":"Start","mode":"Push",
            "backupStartTime":"2026-11-21T13:10:00Z","targetPath":"/run/kubevirt/bk"}"#;
        assert!(matches!(parse(start), Ok(Command::StartBackup(_))));
        let abort = r#"{"backupName":"bk2","cmd":"Abort"}"#;
        let Ok(Command::AbortBackup(id)) = parse(abort) else {
            panic!("no abort")
        };
        assert_eq!((id.name.as_str(), id.start_time), ("bk2", None));
    }

    #[test]
    fn error_contains_the_unusable_option() {
        for (options, part) in [
            ("", "cannot be read"),
            (r#"{"cmd":"Stop"}"#, "\"Stop\""),
            (r#"{"cmd":"Start","mode":"push"}"#, "\"push\""),
            (r#"{"cmd":"Start","mode":"Push"}"#, "backupStartTime"),
            (
                r#"{"cmd":"Start","backupStartTime":"yesterday"}"#,
                "cannot be read",
            ),
        ] {
            let error = parse(options).unwrap_err();
            assert!(error.contains(part), "{options}: {error}");
        }
        assert!(
            checkpoint(b"{}")
                .unwrap_err()
                .to_string()
                .contains("no name")
        );
    }
}
