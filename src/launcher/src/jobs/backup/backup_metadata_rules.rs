//! The rules of the backup's metadata, which virt-handler reads in each notification. Pure.

use kubevirt_api::domain_metadata::Backup;
use libvirt::{CompletedJob, JobOperation, JobType};

use super::{BackupError, BackupId, BackupRequest, Mode};
use crate::jobs::AbortReason;

/// What libvirt says of a job that was aborted; the record says it in its own words.
const CANCELLED: &str = "Operation canceled";

/// What a request to start a backup leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is started.
    Start,
    /// It runs already.
    AlreadyRunning,
}

/// Whether the backup may start, by the record of the last one.
pub(super) fn decide(
    last: Option<&Backup>,
    request: &BackupRequest,
) -> Result<Decision, BackupError> {
    let Some(last) = last.filter(|last| !last.name.is_empty()) else {
        return Ok(Decision::Start);
    };
    match (is_about(last, &request.id()), &last.end_timestamp) {
        (true, None) => Ok(Decision::AlreadyRunning),
        (false, None) => Err(BackupError::InProgress(last.name.clone())),
        (true, Some(end)) => Err(BackupError::AlreadyEnded {
            name: last.name.clone(),
            start: last.start_timestamp.clone().unwrap_or_default(),
            end: end.clone(),
            failed: last.failed,
        }),
        (false, Some(_)) => Ok(Decision::Start),
    }
}

/// Whether a request to abort or export is about the running backup.
pub(super) fn is_running(last: Option<&Backup>, id: &BackupId) -> Result<(), BackupError> {
    let last = last.filter(|last| !last.name.is_empty());
    let last = last.ok_or(BackupError::NotFound)?;
    if last.start_timestamp.is_none() {
        return Err(BackupError::NotStarted);
    }
    if !is_about(last, id) {
        return Err(BackupError::Differs);
    }
    if last.completed {
        return Err(BackupError::Completed);
    }
    Ok(())
}

fn is_about(record: &Backup, id: &BackupId) -> bool {
    let time = id.recorded_time();
    record.name == id.name && time.is_some() && record.start_timestamp == time
}

/// The record of a backup that begins.
pub(super) fn begin(request: &BackupRequest) -> Backup {
    Backup {
        name: request.name().to_owned(),
        mode: request.mode().as_str().to_owned(),
        skip_quiesce: request.skip_quiesce(),
        start_timestamp: request.id().recorded_time(),
        ..Backup::default()
    }
}

/// How a backup ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BackupEnd {
    /// libvirt says how.
    Job(Box<CompletedJob>),
    /// libvirt does not know: its daemon was started again, or the VM ended.
    Unknown,
    /// Nothing was written for too long.
    Stalled(String),
    /// The same, and libvirt did not end the backup: QEMU may still write.
    Abandoned(String),
    /// The task that watched it failed.
    Fault(String),
}

/// The record of a backup that has ended. A failed backup is also complete: virt-handler waits for completion.
pub(super) fn complete(
    begun: Backup,
    mode: Mode,
    now: String,
    end: BackupEnd,
    aborted: Option<AbortReason>,
) -> Backup {
    let failure = match end {
        BackupEnd::Job(job) => failure(&job, mode, aborted),
        BackupEnd::Unknown => Some(match aborted {
            Some(reason) => format!("backup aborted, since {reason}"),
            None => "the end of the backup is not known: the virtual machine ended, or libvirt's \
                     daemon was started again"
                .to_owned(),
        }),
        BackupEnd::Stalled(message) | BackupEnd::Fault(message) => Some(message),
        BackupEnd::Abandoned(message) => Some(format!(
            "{message} libvirt does not end it, so that its files stay"
        )),
    };
    Backup {
        end_timestamp: Some(now),
        completed: true,
        failed: failure.is_some(),
        // Of a success, why the guest was not quiesced: KubeVirt shows it as a warning.
        backup_msg: failure.unwrap_or(begun.backup_msg),
        ..begun
    }
}

/// Why a backup failed, by what libvirt says of its end.
fn failure(job: &CompletedJob, mode: Mode, aborted: Option<AbortReason>) -> Option<String> {
    let ended = match (job.stats.operation, job.stats.job_type) {
        (JobOperation::Backup, JobType::Completed) => return None,
        (JobOperation::Backup, JobType::Cancelled) => match (aborted, mode) {
            (Some(AbortReason::Requested) | None, Mode::Pull) => return None,
            (Some(AbortReason::Requested) | None, Mode::Push) => "backup aborted".to_owned(),
            (Some(reason), _) => format!("backup aborted, since {reason}"),
        },
        (JobOperation::Backup, JobType::Failed) => String::new(),
        (_, other) => format!("unexpected end of the backup: {other:?}"),
    };
    let error = job.error.as_deref();
    let error = error.filter(|error| !error.is_empty() && *error != CANCELLED);
    Some(match (ended.is_empty(), error) {
        (true, Some(error)) => error.to_owned(),
        (true, None) => "libvirt gives no reason for the failure".to_owned(),
        (false, Some(error)) => format!("{ended}: {error}"),
        (false, None) => ended,
    })
}

#[cfg(test)]
mod tests;
