//! Backups of a tracked disk: their notifications and answers, and the data, byte for byte.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use proto::nbd::ReadRequest;
use serde_json::{Value, json};
use tests::export_server::{ExportServer, map, read_all};
use tests::fixture::{LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::virt_handler::{Answer, Event};
use tests::vmi_builder::Vmi;

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

/// A VM with a tracked disk of 16 MiB, of which no two megabytes are equal.
pub(crate) struct BackupFixture {
    pub(crate) fixture: LauncherFixture,
    /// The VMI as virt-handler sends it once the disk is tracked.
    pub(crate) vmi: Vmi,
}

impl BackupFixture {
    pub(crate) async fn boot() -> Result<BackupFixture> {
        let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
        let claim = prepared.pod.path(CLAIM);
        let target = prepared.pod.path(TARGET);
        fs::create_dir_all(&claim)?;
        fs::create_dir_all(&target)?;
        let disk = claim.join("disk.img");
        let content = (0..16 * MIB).map(|at| (at / 512 * 7 + at % 251) as u8);
        fs::write(&disk, content.collect::<Vec<u8>>())?;
        for one in [&claim, &disk, &target] {
            chown(one, Some(QEMU), Some(QEMU))?;
        }
        let booted = tracked("Initializing");
        let fixture = prepared.start(&booted, &[]).await?;
        fixture.boot_without_controller(&booted).await?;
        fixture
            .pod
            .console(&booted)
            .wait_for_boots(1, BACKUP)
            .await?;
        fixture.wait_for_agent(&booted).await?;
        let uid = booted.uid().to_owned();
        let vmi = tracked("Enabled").edit(|vmi| vmi["metadata"]["uid"] = json!(uid));
        Ok(BackupFixture { fixture, vmi })
    }

    /// `BackupVirtualMachine`.
    pub(crate) async fn request(&self, options: Value) -> Result<Answer> {
        Ok(self.fixture.commands.backup(&self.vmi, &options).await?)
    }

    pub(crate) async fn start(&self, options: Value) -> Result<()> {
        self.request(options).await?.ok()
    }

    /// The disk's data, as they are on the node.
    pub(crate) fn disk(&self) -> Result<Vec<u8>> {
        Ok(fs::read(self.fixture.pod.path(CLAIM).join("disk.img"))?)
    }

    /// Waits for the end of the backup, after the first `after` events.
    pub(crate) async fn ended(&self, name: &str, after: usize) -> Result<Event> {
        let is_end = |event: &Event| {
            let record = &event.metadata()["Backup"];
            record["Name"] == name && record["Completed"] == true
        };
        let handler = &self.fixture.handler;
        handler
            .wait_for("the end of the backup", after, BACKUP, is_end)
            .await
    }

    fn file(&self, backup: &str) -> PathBuf {
        let name = backup.split("-20").next().unwrap_or_default();
        let directory = self.fixture.pod.path(TARGET).join("backup").join(backup);
        directory.join(format!("{name}-data.qcow2"))
    }

    /// Writes into the guest's disk, through the guest.
    pub(crate) async fn write_in_guest(&self, seek_mib: u32, kib: u32) -> Result<()> {
        let command = format!(
            "dd if=/dev/urandom of=/dev/vdb bs=1k seek={} count={kib} conv=notrunc 2>/dev/null; sync; \
             blockdev --flushbufs /dev/vdb",
            seek_mib * 1024
        );
        let commands = &self.fixture.commands;
        let done = commands
            .exec(&self.vmi, "/bin/sh", &["-c", &command])
            .await?;
        ensure!(done.exit_code == 0, "{done:?}");
        Ok(())
    }
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

/// An image as raw data.
fn raw(image: &Path) -> Result<Vec<u8>> {
    let to = image.with_extension("raw");
    let converted = Command::new("qemu-img")
        .args(["convert", "-f", "qcow2", "-O", "raw"])
        .args([image, &to])
        .output()?;
    ensure!(
        converted.status.success(),
        "{}",
        String::from_utf8_lossy(&converted.stderr)
    );
    Ok(fs::read(to)?)
}

/// The number of bytes that an image holds itself.
fn allocated(image: &Path) -> Result<u64> {
    let map = Command::new("qemu-img")
        .args(["map", "--output=json", "-f", "qcow2"])
        .arg(image)
        .output()?;
    let map: Value = serde_json::from_slice(&map.stdout)?;
    let extents = map.as_array().context("no map")?.iter();
    let data = extents.filter(|one| one["data"] == true && one["depth"] == 0);
    Ok(data.filter_map(|one| one["length"].as_u64()).sum())
}

/// The backup's record in each domain event, repetitions left out: `TYPE Volumes? Quiesce Completed Failed`.
fn progress(events: &[Event]) -> Vec<String> {
    let lines = events
        .iter()
        .filter(|event| event.metadata()["Backup"].is_object());
    let line = |event: &Event| {
        let record = &event.metadata()["Backup"];
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        format!(
            "{} name={} checkpoint={} quiesce={} completed={} failed={}",
            event.event_type(),
            text("Name"),
            text("CheckpointName"),
            text("QuiesceStatus"),
            record["Completed"],
            record["Failed"],
        )
    };
    crate::distinct(lines.map(line).collect())
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
    let told = progress(&backup.fixture.handler.events()[before..]);
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
    let told: Vec<_> = told
        .into_iter()
        .skip_while(|line| line.contains("quiesce= "))
        .collect();
    ensure!(told == expected, "{told:#?}");
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

/// Two backups in pull mode: the data that the export server reads are the disk's, byte for byte, and its maps say which
/// of them changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pulled_backups_are_served_to_the_export_server() -> Result<()> {
    let backup = BackupFixture::boot().await?;
    let server = ExportServer::start(&backup.fixture.pod).await?;
    check_full_pull(&backup, &server).await?;
    check_incremental_pull(&backup, &server).await?;
    backup.fixture.end_vm(&backup.vmi).await
}

fn pull(name: &str, minute: u32) -> Value {
    with(push(name, minute), "mode", json!("Pull"))
}

fn abort(name: &str, minute: u32) -> Value {
    with(pull(name, minute), "cmd", json!("Abort"))
}

async fn check_full_pull(backup: &BackupFixture, server: &ExportServer) -> Result<()> {
    const TIME: &str = "2026-11-21T13:20:00Z";
    let export = server.options("pl1", TIME)?;
    let refused = backup.request(export.clone()).await?;
    ensure!(!refused.success, "nothing to export: {refused:?}");
    let before = backup.fixture.handler.events().len();
    let disk = backup.disk()?;
    backup.start(pull("pl1", 20)).await?;
    backup.start(pull("pl1", 20)).await?;
    let other = backup.request(push("other", 21)).await?;
    ensure!(
        other.message == "backup pl1 already in progress, need to wait for completion",
        "{other:?}"
    );
    server.answer(http::StatusCode::SERVICE_UNAVAILABLE);
    backup.start(export.clone()).await?;
    backup.start(export).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.answer(http::StatusCode::OK);
    let mut client = server.client().await?;
    // What the guest writes now is not in the backup.
    backup.write_in_guest(7, 64).await?;
    ensure!(
        read_all(&mut client, "data").await? == disk,
        "the served data are not the disk"
    );
    let extents = map(&mut client, "data", "").await?;
    ensure!(
        extents == [(0, disk.len() as u64, "data".to_owned())],
        "{extents:?}"
    );
    let missing = read_all(&mut client, "scratch").await;
    ensure!(missing.is_err(), "a disk that is not tracked is served");
    // A client that stops reading neither stops others nor the end of the backup.
    let everything = ReadRequest {
        export_name: "data".to_owned(),
        ..ReadRequest::default()
    };
    let mut stalled = client.read(everything).await?.into_inner();
    ensure!(stalled.message().await?.is_some());
    ensure!(map(&mut client, "data", "").await?.len() == 1);
    let wrong = backup.request(abort("pl1", 19)).await?;
    ensure!(
        wrong.message == "failed to abort backup: requested backup differs from ongoing one",
        "{wrong:?}"
    );
    backup.start(abort("pl1", 20)).await?;
    let end = backup.ended("pl1", before).await?;
    let record = &end.metadata()["Backup"];
    ensure!(
        record["Failed"] == false && record["BackupMsg"] == "",
        "{record}"
    );
    ensure!(
        record["Mode"] == "Pull" && record["QuiesceStatus"] == "Succeeded",
        "{record}"
    );
    let gone = async || read_all(&mut client, "data").await.is_err().then_some(());
    tests::until("the end of the tunnel", BACKUP, gone).await
}

async fn check_incremental_pull(backup: &BackupFixture, server: &ExportServer) -> Result<()> {
    const CHECKPOINT: &str = "pl1-2026-11-21_13-20-00";
    let options = with(pull("pl2", 25), "incremental", json!(CHECKPOINT));
    backup.start(options).await?;
    backup
        .start(server.options("pl2", "2026-11-21T13:25:00Z")?)
        .await?;
    let mut client = server.client().await?;
    let extents = map(&mut client, "data", "pl2-2026-11-21_13-25-00").await?;
    let written = 7 * MIB as u64;
    let dirty: Vec<_> = extents
        .iter()
        .filter(|(_, _, what)| what == "dirty")
        .collect();
    ensure!(
        dirty.len() == 1 && dirty[0].0 == written && dirty[0].1 < MIB as u64,
        "{extents:?}"
    );
    ensure!(
        extents.iter().map(|(_, length, _)| length).sum::<u64>() == 16 * MIB as u64,
        "{extents:?}"
    );
    ensure!(
        read_all(&mut client, "data").await? == backup.disk()?,
        "not the disk"
    );
    backup.start(abort("pl2", 25)).await
}
