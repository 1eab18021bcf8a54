//! Starts a backup: directory, quiesce, libvirt's job, thaw.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::backup_plan::{BackupMode, BackupPlan, BackupSettings};
use libvirt::Domain;

use super::{BackupError, BackupRequest, Mode};
use crate::agent::{Change, FreezeRequest};
use crate::blocking;
use crate::jobs::{AbortSignal, JobContext, Jobs};
use crate::libvirt_client::{START, SnapshotError};

const SNAPSHOT: Duration = Duration::from_secs(4);
const DIRECTORY: Duration = Duration::from_secs(30);
/// Files of many gigabytes on slow storage.
const REMOVE: Duration = Duration::from_secs(60);
/// The guest is thawed when libvirt takes longer to begin the backup.
const SAFETY_THAW: Duration = Duration::from_secs(30);

/// KubeVirt's words for how the freeze went.
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
const SKIPPED: &str = "Skipped";
/// The safety thaw came first, or somebody thawed the guest.
const THAWED_EARLY: &str = "the guest was thawed before the backup had begun";

/// Returns when libvirt's job runs. On failure nothing is left but the guest's bitmaps.
pub(super) async fn start(
    jobs: Jobs,
    request: BackupRequest,
    aborted: AbortSignal,
) -> Result<Arc<dyn Domain>, BackupError> {
    tracing::info!(
        backup = request.name(),
        mode = request.mode().as_str(),
        "starting a backup"
    );
    let context = &*jobs.context;
    let domain = context.client.lookup().await?;
    let domain = domain.ok_or_else(|| BackupError::NoDomain(context.domain.clone()))?;
    let plan = plan(context, &request).await?;
    make(request.directory().to_owned()).await?;
    let begun = match must_go_on(&aborted) {
        Ok(()) => quiesce_and_begin(&jobs, &request, &domain, &plan, &aborted).await,
        Err(error) => Err(error),
    };
    match begun {
        Ok(()) => Ok(domain),
        Err(error) => {
            remove(request.directory().to_owned()).await;
            Err(error)
        }
    }
}

async fn plan(context: &JobContext, request: &BackupRequest) -> Result<BackupPlan, BackupError> {
    let no_domain = || BackupError::NoDomain(context.domain.clone());
    let snapshot = context.client.snapshot(SNAPSHOT).await;
    let spec = snapshot.map_err(|error| match error {
        SnapshotError::Libvirt(error) if error.is_no_domain() => no_domain(),
        error => error.into(),
    })?;
    let spec = spec.spec.ok_or_else(no_domain)?;
    let mode = match request.mode() {
        Mode::Push => BackupMode::Push,
        Mode::Pull => BackupMode::Pull {
            socket: context.backup_socket.to_string_lossy().into_owned(),
        },
    };
    let plan = BackupPlan::new(
        &spec,
        &BackupSettings {
            name: request.name(),
            checkpoint: &request.checkpoint(),
            incremental: request.incremental(),
            mode: &mode,
            directory: request.directory(),
        },
    );
    match plan.volumes.is_empty() {
        true => Err(BackupError::NoTrackedDisk),
        false => Ok(plan),
    }
}

async fn quiesce_and_begin(
    jobs: &Jobs,
    request: &BackupRequest,
    domain: &Arc<dyn Domain>,
    plan: &BackupPlan,
    aborted: &AbortSignal,
) -> Result<(), BackupError> {
    let volumes = serde_json::to_string(&plan.volumes).unwrap_or_default();
    jobs.change_backup(|record| {
        record.checkpoint_name = request.checkpoint();
        record.volumes = volumes;
        if request.skip_quiesce() {
            record.quiesce_status = SKIPPED.into();
        }
    });
    let frozen = match request.skip_quiesce() {
        true => None,
        false => freeze(jobs, request).await,
    };
    let begun = match must_go_on(aborted) {
        Ok(()) => begin(&jobs.context, domain, plan).await,
        Err(error) => Err(error),
    };
    if let Some(frozen) = frozen
        && !stayed_frozen(jobs, frozen).await
    {
        tracing::warn!("{THAWED_EARLY}");
        jobs.change_backup(|record| {
            record.quiesce_status = FAILED.into();
            record.backup_msg = THAWED_EARLY.into();
        });
    }
    begun
}

/// Freezes the guest; `None` if it cannot be frozen. It is backed up as it is then.
async fn freeze(jobs: &Jobs, request: &BackupRequest) -> Option<Change> {
    let freeze = FreezeRequest {
        thaw_after: Some(SAFETY_THAW),
        persistent_tpm: request.persistent_tpm(),
    };
    match jobs.context.freezer.freeze(freeze).await {
        Ok(change) => {
            jobs.change_backup(|record| record.quiesce_status = SUCCEEDED.into());
            Some(change)
        }
        Err(error) => {
            tracing::warn!(reason = %error, "the guest cannot be frozen for a backup");
            jobs.change_backup(|record| {
                record.quiesce_status = FAILED.into();
                record.backup_msg = error.to_string();
            });
            None
        }
    }
}

/// Whether the guest was still frozen when the backup had begun. It is thawed if the backup froze it; a guest that was
/// frozen before belongs to whoever froze it.
async fn stayed_frozen(jobs: &Jobs, frozen: Change) -> bool {
    let freezer = &jobs.context.freezer;
    let was_frozen = match frozen {
        Change::Done => freezer.thaw().await.map(|thawed| thawed == Change::Done),
        Change::None => freezer.is_frozen().await,
        Change::NothingToFreeze => Ok(true),
    };
    was_frozen.unwrap_or_else(|error| {
        tracing::warn!(reason = %error, "the guest could not be thawed, or asked, after a backup's start");
        true
    })
}

async fn begin(
    context: &JobContext,
    domain: &Arc<dyn Domain>,
    plan: &BackupPlan,
) -> Result<(), BackupError> {
    let (backup, checkpoint) = (plan.backup_xml.clone(), plan.checkpoint_xml.clone());
    tracing::debug!(backup, checkpoint, "beginning a backup");
    let begin = move |domain: &dyn Domain| domain.begin_backup(&backup, &checkpoint);
    let begun = context
        .client
        .on(domain, "beginning a backup", START, begin)
        .await;
    if begun.as_ref().is_err_and(|error| !error.is_definite()) {
        // It may have begun all the same, and nobody would end it.
        let abort = |domain: &dyn Domain| domain.abort_job();
        let aborted = context
            .client
            .on(domain, "aborting a backup", START, abort)
            .await;
        if let Err(error) = aborted {
            tracing::debug!(reason = %error, "there is no backup to abort");
        }
    }
    Ok(begun?)
}

fn must_go_on(aborted: &AbortSignal) -> Result<(), BackupError> {
    match *aborted.borrow() {
        Some(reason) => Err(BackupError::Aborted(reason)),
        None => Ok(()),
    }
}

async fn make(directory: PathBuf) -> Result<(), BackupError> {
    let path = directory.clone();
    let make = move || {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
    };
    let made = blocking::file_call("making the directory of a backup", DIRECTORY, make).await?;
    made.map_err(|reason| BackupError::Directory {
        path: directory,
        reason: reason.to_string(),
    })
}

/// Removes the directory of a failed backup; a failure is logged.
pub(super) async fn remove(directory: PathBuf) {
    let path = directory.clone();
    let remove = move || remove_all(&path);
    let removed = blocking::file_call("removing the directory of a backup", REMOVE, remove).await;
    let reason = match removed {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(directory = %directory.display(), reason, "the directory of a failed backup stays");
}

fn remove_all(directory: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes QEMU's socket, which QEMU does itself unless it was killed.
pub(super) async fn remove_socket(socket: PathBuf) {
    let remove = move || fs::remove_file(socket);
    if let Ok(Ok(())) = blocking::file_call("removing a backup's socket", DIRECTORY, remove).await {
        tracing::debug!("removed the socket of a backup");
    }
}
