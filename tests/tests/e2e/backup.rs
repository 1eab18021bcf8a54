//! Backups of a tracked disk: their notifications and answers, and the data, byte for byte.

mod pull_mode;
mod vm_with_tracked_disk;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use tests::pod::LauncherUser;
use tests::virt_handler::Event;
use tests::vmi_builder::Vmi;

use vm_with_tracked_disk::{BackupFixture, allocated, progress, raw};

const CLAIM: &str = "/run/kubevirt-private/vmi-disks/data";
const TARGET: &str = "/run/kubevirt/bk";
const QEMU: u32 = 107;
const MIB: usize = 1 << 20;
/// 16 MiB are written in a moment, on a machine that does nothing else.
const BACKUP: Duration = Duration::from_secs(60);

fn tracked(state: &str) -> Vmi {
    let disk = json!({ "hostDisk": { "path": format!("{CLAIM}/disk.img"), "type": "Disk" } });
    Vmi::new("backup", LauncherUser::Nonroot)
        .empty_disk("scratch", "8Mi")
        .volume("data", disk)
        .edit(|vmi| {
            vmi["status"]["changedBlockTracking"] = json!({ "state": state });
        })
}

pub(crate) fn push(name: &str, minute: u32) -> Value {
    json!({
        "backupName": name, "cmd": "Start", "mode": "Push", "targetPath": TARGET,
        "backupStartTime": format!("2026-11-21T13:{minute}:00Z"),
    })
}

fn with(mut options: Value, field: &str, value: Value) -> Value {
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

/// The notifications of the reference, and a copy of the disk.
async fn check_full(backup: &BackupFixture) -> Result<()> {
    const CHECKPOINT: &str = "bk1-2026-11-21_13-10-00";
    let before = backup.fixture.handler.events().len();
    backup.start(push("bk1", 10)).await?;
    let end = backup.ended("bk1", before).await?;
    // The record is published twice: as `ADDED`, and as any change of the metadata.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let states = progress(&backup.fixture.handler.events()[before..]);
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
    // The first records follow each other so fast that a notification may have the content of the next.
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
        raw(&backup.file(CHECKPOINT))? == disk,
        "the backup is not the disk"
    );
    Ok(())
}

async fn check_incremental(backup: &BackupFixture) -> Result<()> {
    backup.write_in_guest(3, 100).await?;
    let before = backup.fixture.handler.events().len();
    let options = with(
        push("bk2", 11),
        "incremental",
        json!("bk1-2026-11-21_13-10-00"),
    );
    backup
        .start(with(options, "skipQuiesce", json!(true)))
        .await?;
    let end = backup.ended("bk2", before).await?;
    let record = &end.metadata()["Backup"];
    ensure!(
        record["Failed"] == false && record["QuiesceStatus"] == "Skipped",
        "{record}"
    );
    let full = backup.file("bk1-2026-11-21_13-10-00");
    let increment = backup.file("bk2-2026-11-21_13-11-00");
    let rebased = Command::new("qemu-img")
        .args(["rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b"])
        .args([&full, &increment])
        .status()?;
    ensure!(rebased.success());
    let changed = allocated(&increment)?;
    ensure!(
        (100 << 10..=1 << 20).contains(&changed),
        "{changed} bytes changed"
    );
    let disk = backup.disk()?;
    ensure!(raw(&full)? != disk, "the guest has written nothing");
    ensure!(
        raw(&increment)? == disk,
        "full and incremental backup are not the disk"
    );
    Ok(())
}

async fn check_unknown_checkpoint(backup: &BackupFixture) -> Result<()> {
    let before = backup.fixture.handler.events().len();
    let answer = backup
        .request(with(push("bk3", 12), "incremental", json!("nope")))
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
        .wait_for("an empty record", before, BACKUP, is_reset)
        .await?;
    ensure!(
        !backup
            .file("bk3-2026-11-21_13-12-00")
            .parent()
            .is_some_and(Path::exists)
    );
    Ok(())
}

/// The guest is not frozen after any of it.
async fn check_refusals(backup: &BackupFixture) -> Result<()> {
    let abort = json!({ "backupName": "bk2", "cmd": "Abort" });
    let answer = backup.request(abort).await?;
    ensure!(
        answer.message == "failed to abort backup: could not find ongoing backup",
        "{answer:?}"
    );
    for (options, part) in [
        (json!({ "cmd": "Start", "mode": "Push" }), "backupStartTime"),
        (with(push("../x", 13), "mode", json!("Push")), "../x"),
        (
            with(push("bk4", 13), "targetPath", json!("/nonexistent")),
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
    let untracked = tracked("Initializing");
    let answer = commands.backup(&untracked, &push("bk5", 14)).await?;
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
