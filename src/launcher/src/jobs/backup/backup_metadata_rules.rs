//! The rules of the backup's record in KubeVirt's metadata: which start, abort and export requests it admits, and how
//! it changes. virt-handler reads the record in each notification. Pure.

use kubevirt_api::domain_metadata::Backup;
use libvirt::{CompletedJob, JobOperation, JobType};

use super::{BackupError, BackupId, BackupRequest, Mode};
use crate::jobs::AbortReason;

/// libvirt's error of an aborted job, which the record replaces by its own text.
const LIBVIRT_CANCELLED_TEXT: &str = "Operation canceled";

/// The decision about a request to start a backup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartDecision {
    /// The backup is started.
    Start,
    /// The backup is running already.
    AlreadyRunning,
}

/// Decides by the record of the last backup whether the requested one is started.
pub(super) fn decide(
    last: Option<&Backup>,
    request: &BackupRequest,
) -> Result<StartDecision, BackupError> {
    let Some(last) = last.filter(|last| !last.name.is_empty()) else {
        return Ok(StartDecision::Start);
    };
    match (is_record_of(last, &request.id()), &last.end_timestamp) {
        (true, None) => Ok(StartDecision::AlreadyRunning),
        (false, None) => Err(BackupError::InProgress(last.name.clone())),
        (true, Some(end)) => Err(BackupError::AlreadyEnded {
            name: last.name.clone(),
            start: last.start_timestamp.clone().unwrap_or_default(),
            end: end.clone(),
            failed: last.failed,
        }),
        (false, Some(_)) => Ok(StartDecision::Start),
    }
}

/// Requires that a request to abort or export names the running backup.
pub(super) fn require_running(last: Option<&Backup>, id: &BackupId) -> Result<(), BackupError> {
    let last = last.filter(|last| !last.name.is_empty());
    let last = last.ok_or(BackupError::NotFound)?;
    if last.start_timestamp.is_none() {
        return Err(BackupError::NotStarted);
    }
    if !is_record_of(last, id) {
        return Err(BackupError::OtherBackup);
    }
    if last.completed {
        return Err(BackupError::Completed);
    }
    Ok(())
}

fn is_record_of(record: &Backup, id: &BackupId) -> bool {
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

/// The end of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BackupEnd {
    /// libvirt reports the end of its job.
    Job(Box<CompletedJob>),
    /// libvirt does not know the end: its daemon was restarted, or the VM ended.
    Unknown,
    /// Nothing was written until the stall timeout, and the backup was aborted. Contains the message.
    Stalled(String),
    /// As `Stalled`, but libvirt did not end the backup, so that QEMU may still write.
    Abandoned(String),
    /// The task that watched the backup panicked. Contains the message.
    WatchFailed(String),
}

/// The record of a backup that has ended. A failed backup is also complete: virt-handler waits for completion.
pub(super) fn complete(
    started_record: Backup,
    mode: Mode,
    now: String,
    end: BackupEnd,
    aborted: Option<AbortReason>,
) -> Backup {
    let failure = match end {
        BackupEnd::Job(job) => failure_reason(&job, mode, aborted),
        BackupEnd::Unknown => Some(match aborted {
            Some(reason) => format!("backup aborted, since {reason}"),
            None => "the end of the backup is not known: the virtual machine ended, or libvirt's \
                     daemon was started again"
                .to_owned(),
        }),
        BackupEnd::Stalled(message) | BackupEnd::WatchFailed(message) => Some(message),
        BackupEnd::Abandoned(message) => Some(format!(
            "{message} libvirt does not end it, so that its files stay"
        )),
    };
    Backup {
        end_timestamp: Some(now),
        completed: true,
        failed: failure.is_some(),
        // After a success the message is why the guest was not frozen, which KubeVirt shows as a warning.
        backup_msg: failure.unwrap_or(started_record.backup_msg),
        ..started_record
    }
}

/// The reason of a failure, from libvirt's report of the end; `None` after a success.
fn failure_reason(job: &CompletedJob, mode: Mode, aborted: Option<AbortReason>) -> Option<String> {
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
    let error = error.filter(|error| !error.is_empty() && *error != LIBVIRT_CANCELLED_TEXT);
    Some(match (ended.is_empty(), error) {
        (true, Some(error)) => error.to_owned(),
        (true, None) => "libvirt gives no reason for the failure".to_owned(),
        (false, Some(error)) => format!("{ended}: {error}"),
        (false, None) => ended,
    })
}

#[cfg(test)]
mod tests;
