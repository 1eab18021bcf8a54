//! Starts a backup: creates its directory, freezes the guest, starts libvirt's job, and thaws the guest.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::backup_plan::{BackupMode, BackupPlan, BackupSettings};
use libvirt::Domain;

use super::{BackupError, BackupRequest, Mode};
use crate::blocking;
use crate::guest_agent::{Change, FreezeRequest};
use crate::jobs::{AbortSignal, JobContext, Jobs};
use crate::libvirt_client::{START, SnapshotError};

const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(4);
const DIRECTORY_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of removing files: they may have many gigabytes and be on slow storage.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(60);
/// The guest is thawed after this time, if libvirt has not begun the backup by then.
const SAFETY_THAW_DELAY: Duration = Duration::from_secs(30);

/// KubeVirt's values of the record's `quiesce_status`.
const QUIESCE_SUCCEEDED: &str = "Succeeded";
const QUIESCE_FAILED: &str = "Failed";
const QUIESCE_SKIPPED: &str = "Skipped";
/// The message if the safety thaw, or another client, thawed the guest before the backup had begun.
const THAWED_EARLY: &str = "the guest was thawed before the backup had begun";

/// Starts a backup. Returns when libvirt's job runs. After a failure nothing is left except the bitmaps of QEMU's
/// images.
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
    create_directory(request.directory().to_owned()).await?;
    let begin_result = match require_not_aborted(&aborted) {
        Ok(()) => quiesce_and_begin(&jobs, &request, &domain, &plan, &aborted).await,
        Err(error) => Err(error),
    };
    match begin_result {
        Ok(()) => Ok(domain),
        Err(error) => {
            remove_directory(request.directory().to_owned()).await;
            Err(error)
        }
    }
}

async fn plan(context: &JobContext, request: &BackupRequest) -> Result<BackupPlan, BackupError> {
    let no_domain = || BackupError::NoDomain(context.domain.clone());
    let snapshot = context.client.snapshot(SNAPSHOT_TIMEOUT).await;
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
            record.quiesce_status = QUIESCE_SKIPPED.into();
        }
    });
    let freeze_result = match request.skip_quiesce() {
        true => None,
        false => freeze(jobs, request).await,
    };
    let begin_result = match require_not_aborted(aborted) {
        Ok(()) => begin(&jobs.context, domain, plan).await,
        Err(error) => Err(error),
    };
    if let Some(frozen) = freeze_result
        && !end_freeze(jobs, frozen).await
    {
        tracing::warn!("{THAWED_EARLY}");
        jobs.change_backup(|record| {
            record.quiesce_status = QUIESCE_FAILED.into();
            record.backup_msg = THAWED_EARLY.into();
        });
    }
    begin_result
}

/// Freezes the guest; `None` if it cannot be frozen. It is then backed up without a freeze.
async fn freeze(jobs: &Jobs, request: &BackupRequest) -> Option<Change> {
    let freeze = FreezeRequest {
        thaw_after: Some(SAFETY_THAW_DELAY),
        persistent_tpm: request.persistent_tpm(),
    };
    match jobs.context.freezer.freeze(freeze).await {
        Ok(change) => {
            jobs.change_backup(|record| record.quiesce_status = QUIESCE_SUCCEEDED.into());
            Some(change)
        }
        Err(error) => {
            tracing::warn!(reason = %error, "the guest cannot be frozen for a backup");
            jobs.change_backup(|record| {
                record.quiesce_status = QUIESCE_FAILED.into();
                record.backup_msg = error.to_string();
            });
            None
        }
    }
}

/// Thaws the guest if the backup froze it; a guest that another client froze before stays frozen. Returns whether the
/// guest was still frozen when the backup had begun.
async fn end_freeze(jobs: &Jobs, frozen: Change) -> bool {
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
    let begin_result = context
        .client
        .on(domain, "beginning a backup", START, begin)
        .await;
    if begin_result
        .as_ref()
        .is_err_and(|error| !error.is_definite())
    {
        // The backup may have begun after the timeout, and nothing else would end it.
        let abort = |domain: &dyn Domain| domain.abort_job();
        let aborted = context
            .client
            .on(domain, "aborting a backup", START, abort)
            .await;
        if let Err(error) = aborted {
            tracing::debug!(reason = %error, "there is no backup to abort");
        }
    }
    Ok(begin_result?)
}

/// Returns an error if the job was aborted.
fn require_not_aborted(aborted: &AbortSignal) -> Result<(), BackupError> {
    match *aborted.borrow() {
        Some(reason) => Err(BackupError::Aborted(reason)),
        None => Ok(()),
    }
}

async fn create_directory(directory: PathBuf) -> Result<(), BackupError> {
    let path = directory.clone();
    let create = move || {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
    };
    let created = blocking::file_call(
        "making the directory of a backup",
        DIRECTORY_TIMEOUT,
        create,
    )
    .await?;
    created.map_err(|reason| BackupError::Directory {
        path: directory,
        reason: reason.to_string(),
    })
}

/// Removes the directory of a failed backup. If that fails, it is only logged.
pub(super) async fn remove_directory(directory: PathBuf) {
    let path = directory.clone();
    let remove = move || remove_all(&path);
    let removed =
        blocking::file_call("removing the directory of a backup", REMOVE_TIMEOUT, remove).await;
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

/// Removes QEMU's socket, which QEMU removes itself unless it was killed.
pub(super) async fn remove_socket(socket: PathBuf) {
    let remove = move || fs::remove_file(socket);
    if let Ok(Ok(())) =
        blocking::file_call("removing a backup's socket", DIRECTORY_TIMEOUT, remove).await
    {
        tracing::debug!("removed the socket of a backup");
    }
}
