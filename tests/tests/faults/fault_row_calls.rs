//! The calls of the fault matrix's rows to the launcher, each with virt-handler's deadline.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use proto::cmd::v1::EmptyRequest;
use serde_json::{Value, json};
use tests::emulated_virt_handler::{Answer, Commands};
use tests::vmi_builder::Vmi;

use crate::hotplugged_disks;

/// virt-handler's deadline of a command, and some slack.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(21);
/// The directory of backups.
const BACKUP_DIRECTORY: &str = "/run/kubevirt/backups";
/// The directory of memory dumps.
const DUMP_DIRECTORY: &str = "/var/run/kubevirt/hotplug-disks";
/// A directory with space for 4 MiB, which a memory dump or a backup fills.
const SMALL_DIRECTORY: &str = "/run/kubevirt/full";
/// The start time of every backup.
pub(crate) const BACKUP_TIME: &str = "2026-11-21T13:10:00Z";

/// A command or query, with virt-handler's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Ping,
    Sync,
    Pause,
    Unpause,
    /// A freeze that is thawed automatically after 2 s.
    Freeze,
    Unfreeze,
    /// A memory dump to a new file.
    MemoryDump,
    /// A memory dump to a directory without enough space.
    MemoryDumpToFullDisk,
    /// A sync with a hotplugged disk, after which the domain has it.
    AttachDisk,
    /// A sync without the hotplugged disk, after which the domain no longer has it.
    DetachDisk,
    /// A sync without the hotplugged disk, which the guest does not release: the sync succeeds, and the domain still
    /// has the disk.
    DetachKeptDisk,
    /// A sync with a hotplugged qcow2 image, which is attached as raw data, and a sync with a disk whose overlay is not
    /// an image, which is refused.
    AttachForeignImages,
    /// Syncs with one hotplugged disk each, whose image is missing, is a directory, or is used by another disk.
    AttachUnusableDisks,
    /// A command in the guest that prints 100 MB.
    ExecFlood,
    /// A new backup in push mode.
    PushBackup,
    /// A new backup in push mode to a directory without enough space.
    PushBackupToFullDisk,
    /// A new backup in pull mode.
    PullBackup,
    /// The abort of the backup that was started last.
    AbortBackup,
    Reset,
    Shutdown,
    Kill,
    Delete,
    GetDomain,
    GetDomainStats,
    GetQemuVersion,
    GetGuestInfo,
    GuestPing,
}

/// Makes one call with virt-handler's deadline.
pub(crate) async fn ask(client: &Commands, vmi: &Vmi, call: Call) -> Result<Answer> {
    let without_result = |outcome: Result<()>| {
        outcome.map(|()| Answer {
            success: true,
            message: String::new(),
        })
    };
    let answer = async {
        Ok(match call {
            Call::Ping => client.ping().await?,
            Call::Sync => client.sync(vmi).await?,
            Call::Pause => client.pause(vmi).await?,
            Call::Unpause => client.unpause(vmi).await?,
            Call::Freeze => client.freeze(vmi, 2).await?,
            Call::Unfreeze => client.unfreeze(vmi).await?,
            Call::MemoryDump => {
                client
                    .memory_dump(vmi, &format!("{DUMP_DIRECTORY}/{}", dump_name()))
                    .await?
            }
            Call::MemoryDumpToFullDisk => {
                client
                    .memory_dump(vmi, &format!("{SMALL_DIRECTORY}/{}", dump_name()))
                    .await?
            }
            Call::AttachDisk => hotplugged_disks::sync_disk(client, vmi, true).await?,
            Call::DetachDisk => hotplugged_disks::sync_disk(client, vmi, false).await?,
            Call::DetachKeptDisk => hotplugged_disks::sync_without_kept_disk(client, vmi).await?,
            Call::AttachForeignImages => hotplugged_disks::sync_foreign_images(client, vmi).await?,
            Call::AttachUnusableDisks => hotplugged_disks::sync_unusable_disks(client, vmi).await?,
            Call::ExecFlood => {
                let flood = "head -c 100000000 /dev/zero | tr '\\0' x";
                without_result(
                    client
                        .exec(vmi, "sh", &["-c", flood])
                        .await
                        .map(drop)
                        .map_err(Into::into),
                )?
            }
            Call::PushBackup => backup(client, vmi, start_backup("Push", BACKUP_DIRECTORY)).await?,
            Call::PushBackupToFullDisk => {
                backup(client, vmi, start_backup("Push", SMALL_DIRECTORY)).await?
            }
            Call::PullBackup => backup(client, vmi, start_backup("Pull", BACKUP_DIRECTORY)).await?,
            Call::AbortBackup => backup(client, vmi, json!({ "cmd": "Abort" })).await?,
            Call::Reset => client.reset(vmi).await?,
            Call::Shutdown => client.shutdown(vmi).await?,
            Call::Kill => client.kill(vmi).await?,
            Call::Delete => client.delete(vmi).await?,
            Call::GuestPing => client.guest_ping(vmi, 5).await?,
            Call::GetDomain => without_result(client.domain().await.map(drop))?,
            Call::GetDomainStats => without_result(client.domain_stats().await.map(drop))?,
            Call::GetQemuVersion => without_result(client.qemu_version().await.map(drop))?,
            Call::GetGuestInfo => {
                let mut raw = client.raw.clone();
                without_result(
                    raw.get_guest_info(EmptyRequest {})
                        .await
                        .map(drop)
                        .map_err(Into::into),
                )?
            }
        })
    };
    let result: Result<Result<Answer>, _> = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
    result
        .with_context(|| format!("{call:?}: no answer within {ANSWER_TIMEOUT:?}"))?
        .with_context(|| format!("{call:?}"))
}

/// Calls `BackupVirtualMachine` with `options` and the backup's name and start time.
async fn backup(client: &Commands, vmi: &Vmi, mut options: Value) -> Result<Answer> {
    options["backupName"] = json!(backup_name(vmi, options["cmd"] == "Start"));
    options["backupStartTime"] = json!(BACKUP_TIME);
    Ok(client.backup(&with_tracked_blocks(vmi), &options).await?)
}

fn start_backup(mode: &str, directory: &str) -> Value {
    json!({ "cmd": "Start", "mode": mode, "targetPath": directory })
}

/// The VMI with the status of a VM whose changed blocks are tracked.
pub(crate) fn with_tracked_blocks(vmi: &Vmi) -> Vmi {
    let vmi = vmi.clone();
    vmi.edit(|vmi| vmi["status"]["changedBlockTracking"]["state"] = json!("Enabled"))
}

/// The number of started backups by the UID of the VM.
static STARTED_BACKUPS: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

/// The name of the VM's newest backup, or of the next one if `is_new`.
pub(crate) fn backup_name(vmi: &Vmi, is_new: bool) -> String {
    let mut started = STARTED_BACKUPS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let number = started.entry(vmi.uid().to_owned()).or_default();
    *number += u32::from(is_new);
    format!("fault-{number}")
}

/// A new name of a dump: a dump with a name that was used before does nothing.
fn dump_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("fault-{number}.memory.dump")
}
