//! Backups of a tracked disk: notifications, answers and data.

mod pull_mode;
mod vm_with_tracked_disk;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use tests::emulated_virt_handler::Event;
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use vm_with_tracked_disk::{BackupFixture, allocated_bytes, backup_states, raw_data};

const CLAIM_DIRECTORY: &str = "/run/kubevirt-private/vmi-disks/data";
const TARGET_DIRECTORY: &str = "/run/kubevirt/bk";
const MIB: usize = 1 << 20;
/// How long a backup of 16 MiB may take on a busy machine.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(60);

fn vmi_with_tracked_disk(state: &str) -> Vmi {
    let disk =
        json!({ "hostDisk": { "path": format!("{CLAIM_DIRECTORY}/disk.img"), "type": "Disk" } });
    Vmi::new("backup", LauncherUser::Nonroot)
        .empty_disk("scratch", "8Mi")
        .volume("data", disk)
        .edit(|vmi| {
            vmi["status"]["changedBlockTracking"] = json!({ "state": state });
        })
}

/// The options of a backup in push mode that starts at this minute.
pub(crate) fn push_options(name: &str, minute: u32) -> Value {
    json!({
        "backupName": name, "cmd": "Start", "mode": "Push", "targetPath": TARGET_DIRECTORY,
        "backupStartTime": format!("2026-11-21T13:{minute}:00Z"),
    })
}

fn with_option(mut options: Value, field: &str, value: Value) -> Value {
    options[field] = value;
    options
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushed_backups_hold_the_disk_and_what_changed_since() -> Result<()> {
    let backup = BackupFixture::boot().await?;
    check_full(&backup).await?;
    check_incremental(&backup).await?;
    check_unknown_checkpoint(&backup).await?;
    check_refusals(&backup).await?;
    check_redefinition(&backup).await?;
    backup.fixture.end_vm(&backup.vmi).await
}

/// A full backup has the notifications of KubeVirt's launcher, and contains the disk's data.
async fn check_full(backup: &BackupFixture) -> Result<()> {
    const CHECKPOINT: &str = "bk1-2026-11-21_13-10-00";
    let before = backup.fixture.handler.events().len();
    backup.start(push_options("bk1", 10)).await?;
    let end = backup.wait_for_end("bk1", before).await?;
    // The record is published twice: in an `ADDED` event, and in a `MODIFIED` event like any change of the metadata.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let states = backup_states(&backup.fixture.handler.events()[before..]);
    let line = |kind: &str, completed: bool| {
        format!(
            "{kind} name=bk1 checkpoint={CHECKPOINT} quiesce=Succeeded completed={completed} \
             failed=false"
        )
    };
    let expected = [
        line("MODIFIED", false),
        line("ADDED", true),
        line("MODIFIED", true),
    ];
    // The first records follow each other so fast that a notification may already have the next record.
    let states: Vec<_> = states
        .into_iter()
        .skip_while(|line| line.contains("quiesce= "))
        .collect();
    ensure!(states == expected, "{states:#?}");
    let record = &end.metadata()["Backup"];
    let expected = json!({
        "Name": "bk1", "Mode": "Push", "SkipQuiesce": false,
        "StartTimestamp": "2026-11-21T13:10:00Z", "EndTimestamp": record["EndTimestamp"],
        "Completed": true, "Failed": false, "BackupMsg": "", "CheckpointName": CHECKPOINT,
        "Volumes": "[{\"volumeName\":\"data\",\"diskTarget\":\"vdb\"}]", "QuiesceStatus": "Succeeded",
    });
    ensure!(*record == expected, "{record:#}");
    ensure!(
        record["EndTimestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    let disk = backup.disk()?;
    ensure!(
        raw_data(&backup.file(CHECKPOINT))? == disk,
        "the backup is not the disk"
    );
    Ok(())
}

async fn check_incremental(backup: &BackupFixture) -> Result<()> {
    backup.write_in_guest(3, 100).await?;
    let before = backup.fixture.handler.events().len();
    let options = with_option(
        push_options("bk2", 11),
        "incremental",
        json!("bk1-2026-11-21_13-10-00"),
    );
    backup
        .start(with_option(options, "skipQuiesce", json!(true)))
        .await?;
    let end = backup.wait_for_end("bk2", before).await?;
    let record = &end.metadata()["Backup"];
    ensure!(
        record["Failed"] == false && record["QuiesceStatus"] == "Skipped",
        "{record}"
    );
    let full = backup.file("bk1-2026-11-21_13-10-00");
    let increment = backup.file("bk2-2026-11-21_13-11-00");
    let rebase = Command::new("qemu-img")
        .args(["rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b"])
        .args([&full, &increment])
        .status()?;
    ensure!(rebase.success());
    let changed = allocated_bytes(&increment)?;
    ensure!(
        (100 << 10..=1 << 20).contains(&changed),
        "{changed} bytes changed"
    );
    let disk = backup.disk()?;
    ensure!(raw_data(&full)? != disk, "the guest has written nothing");
    ensure!(
        raw_data(&increment)? == disk,
        "full and incremental backup are not the disk"
    );
    Ok(())
}

async fn check_unknown_checkpoint(backup: &BackupFixture) -> Result<()> {
    let before = backup.fixture.handler.events().len();
    let answer = backup
        .request(with_option(
            push_options("bk3", 12),
            "incremental",
            json!("nope"),
        ))
        .await?;
    let expected = "virError(Code=103, Domain=10, Message='Domain checkpoint not found: Checkpoint \
                    'nope' for incremental backup of disk 'vdb' not found')";
    ensure!(!answer.success && answer.message == expected, "{answer:?}");
    let is_reset = |event: &Event| {
        let record = &event.metadata()["Backup"];
        record["Name"] == "" && record["StartTimestamp"].is_null() && record["CheckpointName"] == ""
    };
    let handler = &backup.fixture.handler;
    handler
        .wait_for("an empty record", before, BACKUP_TIMEOUT, is_reset)
        .await?;
    ensure!(
        !backup
            .file("bk3-2026-11-21_13-12-00")
            .parent()
            .is_some_and(Path::exists)
    );
    Ok(())
}

/// Refused requests have KubeVirt's messages, and leave the guest unfrozen.
async fn check_refusals(backup: &BackupFixture) -> Result<()> {
    let abort = json!({ "backupName": "bk2", "cmd": "Abort" });
    let answer = backup.request(abort).await?;
    ensure!(
        answer.message == "failed to abort backup: could not find ongoing backup",
        "{answer:?}"
    );
    for (options, part) in [
        (json!({ "cmd": "Start", "mode": "Push" }), "backupStartTime"),
        (
            with_option(push_options("../x", 13), "mode", json!("Push")),
            "../x",
        ),
        (
            with_option(push_options("bk4", 13), "targetPath", json!("/nonexistent")),
            "/nonexistent",
        ),
    ] {
        let answer = backup.request(options).await?;
        ensure!(
            !answer.success && answer.message.contains(part),
            "{answer:?}"
        );
    }
    let commands = &backup.fixture.commands;
    let untracked = vmi_with_tracked_disk("Initializing");
    let answer = commands
        .backup(&untracked, &push_options("bk5", 14))
        .await?;
    ensure!(
        answer.message == "Backup failed ChangedBlockTracking is not enabled",
        "{answer:?}"
    );
    backup.write_in_guest(5, 4).await
}

async fn check_redefinition(backup: &BackupFixture) -> Result<()> {
    let commands = &backup.fixture.commands;
    let redefine =
        async |checkpoint: Value| commands.redefine_checkpoint(&backup.vmi, &checkpoint).await;
    let name = "bk1-2026-11-21_13-10-00";
    let (answer, invalid) = redefine(json!({ "name": name })).await?;
    let expected = format!(
        "failed to redefine checkpoint {name}: virError(Code=1, Domain=69, Message='internal error: \
         missing creationTime from existing checkpoint')"
    );
    ensure!(answer.message == expected && !invalid, "{answer:?}");
    let known = json!({ "name": name, "creationTime": "2026-11-21T13:10:00Z" });
    let (answer, invalid) = redefine(known).await?;
    ensure!(answer.success && !invalid, "{answer:?}");
    let unknown = json!({ "name": "nope", "creationTime": "2026-11-21T13:10:00Z" });
    let (answer, invalid) = redefine(unknown).await?;
    if !invalid || answer.message != "no disks found with checkpoint bitmap nope" {
        bail!("{answer:?}");
    }
    Ok(())
}
