//! A VM with a tracked disk, and the images of its backups.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::virt_handler::{Answer, Event};
use tests::vmi_builder::Vmi;

use super::{BACKUP, CLAIM, MIB, QEMU, TARGET, tracked};

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

    pub(crate) fn file(&self, backup: &str) -> PathBuf {
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

/// An image as raw data.
pub(super) fn raw(image: &Path) -> Result<Vec<u8>> {
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
pub(super) fn allocated(image: &Path) -> Result<u64> {
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
pub(super) fn progress(events: &[Event]) -> Vec<String> {
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
