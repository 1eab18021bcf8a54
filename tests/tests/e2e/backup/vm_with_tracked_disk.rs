//! The fixture of backup tests: a VM with a tracked disk, and the images of its backups.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::emulated_virt_handler::{Answer, Event};
use tests::launcher_fixture::{LauncherFixture, PreparedPod};
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

use super::{BACKUP_TIMEOUT, CLAIM_DIRECTORY, MIB, TARGET_DIRECTORY, vmi_with_tracked_disk};

/// A running VM with a tracked disk of 16 MiB, in which no two MiB are equal.
pub(crate) struct BackupFixture {
    pub(crate) fixture: LauncherFixture,
    /// The VMI as virt-handler sends it after tracking is enabled.
    pub(crate) vmi: Vmi,
}

impl BackupFixture {
    pub(crate) async fn boot() -> Result<BackupFixture> {
        let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
        let claim = prepared.pod.path(CLAIM_DIRECTORY);
        let target = prepared.pod.path(TARGET_DIRECTORY);
        fs::create_dir_all(&claim)?;
        fs::create_dir_all(&target)?;
        let disk = claim.join("disk.img");
        let content = (0..16 * MIB).map(|offset| (offset / 512 * 7 + offset % 251) as u8);
        fs::write(&disk, content.collect::<Vec<u8>>())?;
        for path in [&claim, &disk, &target] {
            chown(path, Some(QEMU_UID), Some(QEMU_UID))?;
        }
        let untracked_vmi = vmi_with_tracked_disk("Initializing");
        let fixture = prepared.start(&untracked_vmi, &[]).await?;
        fixture.boot_without_controller(&untracked_vmi).await?;
        fixture
            .pod
            .console(&untracked_vmi)
            .wait_for_boots(1, BACKUP_TIMEOUT)
            .await?;
        fixture.wait_for_agent(&untracked_vmi).await?;
        let uid = untracked_vmi.uid().to_owned();
        let vmi = vmi_with_tracked_disk("Enabled").edit(|vmi| vmi["metadata"]["uid"] = json!(uid));
        Ok(BackupFixture { fixture, vmi })
    }

    /// `BackupVirtualMachine`.
    pub(crate) async fn request(&self, options: Value) -> Result<Answer> {
        Ok(self.fixture.commands.backup(&self.vmi, &options).await?)
    }

    pub(crate) async fn start(&self, options: Value) -> Result<()> {
        self.request(options).await?.accepted()
    }

    /// The disk's data, read on the node.
    pub(crate) fn disk(&self) -> Result<Vec<u8>> {
        Ok(fs::read(
            self.fixture.pod.path(CLAIM_DIRECTORY).join("disk.img"),
        )?)
    }

    /// Waits for a notification of the backup's end among the events from number `after` on.
    pub(crate) async fn wait_for_end(&self, name: &str, after: usize) -> Result<Event> {
        let is_end = |event: &Event| {
            let record = &event.metadata()["Backup"];
            record["Name"] == name && record["Completed"] == true
        };
        let handler = &self.fixture.handler;
        handler
            .wait_for("the end of the backup", after, BACKUP_TIMEOUT, is_end)
            .await
    }

    pub(crate) fn file(&self, backup: &str) -> PathBuf {
        let name = backup.split("-20").next().unwrap_or_default();
        let directory = self
            .fixture
            .pod
            .path(TARGET_DIRECTORY)
            .join("backup")
            .join(backup);
        directory.join(format!("{name}-data.qcow2"))
    }

    /// Writes random data to the disk in the guest.
    pub(crate) async fn write_in_guest(&self, seek_mib: u32, kib: u32) -> Result<()> {
        let command = format!(
            "dd if=/dev/urandom of=/dev/vdb bs=1k seek={} count={kib} conv=notrunc 2>/dev/null; sync; \
             blockdev --flushbufs /dev/vdb",
            seek_mib * 1024
        );
        let commands = &self.fixture.commands;
        let answer = commands
            .exec(&self.vmi, "/bin/sh", &["-c", &command])
            .await?;
        ensure!(answer.exit_code == 0, "{answer:?}");
        Ok(())
    }
}

/// The raw data of a qcow2 image.
pub(super) fn raw_data(image: &Path) -> Result<Vec<u8>> {
    let raw_image = image.with_extension("raw");
    let output = Command::new("qemu-img")
        .args(["convert", "-f", "qcow2", "-O", "raw"])
        .args([image, &raw_image])
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(fs::read(raw_image)?)
}

/// The number of bytes that an image contains itself, without its backing image.
pub(super) fn allocated_bytes(image: &Path) -> Result<u64> {
    let map = Command::new("qemu-img")
        .args(["map", "--output=json", "-f", "qcow2"])
        .arg(image)
        .output()?;
    let map: Value = serde_json::from_slice(&map.stdout)?;
    let extents = map.as_array().context("no map")?.iter();
    let data = extents.filter(|path| path["data"] == true && path["depth"] == 0);
    Ok(data.filter_map(|path| path["length"].as_u64()).sum())
}

/// The backup's record in each domain event as one line, without repetitions.
pub(super) fn backup_states(events: &[Event]) -> Vec<String> {
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
