//! Backups of the disks whose changed blocks are tracked.
//!
//! ```text
//!          refused                              libvirt's job ends, by itself or by an abort
//!        ┌───────────┐                                 ┌───────────────────────┐
//!        ▼           │                                 ▼                       │
//!   [no record]   [starting: quiesce, begin, thaw] [complete]        [running: watched, exported]
//!        │           ▲          │                                              ▲
//!        └── start ──┘          └──────────────── libvirt's job runs ──────────┘
//! ```
//! A request to start is answered when libvirt's job runs. A start that fails leaves an empty record, so that it can be
//! repeated.

mod backup_metadata_rules;
mod backup_request;
mod error;
mod export_tunnel;
mod pull_mode_export;
mod redefine_checkpoint;
mod start_backup;
mod watch_backup;

use std::sync::Arc;
use std::time::Duration;

use kubevirt_api::domain_metadata::Backup;
use libvirt::Domain;
use tokio::sync::oneshot;

pub(crate) use backup_request::{
    BackupFields, BackupId, BackupRequest, BackupRequestError, ExportRequest, Mode,
};
pub(crate) use error::BackupError;
pub(crate) use redefine_checkpoint::{Checkpoint, CheckpointError};

pub(super) use pull_mode_export::Export;

use super::{AbortReason, AbortSignal, JobKind, JobStart, JobState, Jobs};
use crate::timestamp;
use backup_metadata_rules::{BackupEnd, StartDecision};

/// How long a request to abort waits for the end of the backup. The abort continues in the background after that.
const ABORT_TIMEOUT: Duration = Duration::from_secs(8);

impl Jobs {
    /// Starts a backup. Returns when libvirt's job runs.
    pub(crate) async fn start_backup(
        &self,
        request: BackupRequest,
    ) -> Result<JobStart, BackupError> {
        let started = {
            let mut state = self.lock();
            match *self.running.borrow() {
                Some(JobKind::Backup) | None => {}
                Some(JobKind::Migration) => return Err(BackupError::MigrationRuns),
                Some(other) => return Err(BackupError::OtherJobRuns(other)),
            }
            match backup_metadata_rules::decide(state.backup.as_ref(), &request)? {
                StartDecision::Start => {}
                StartDecision::AlreadyRunning => return Ok(JobStart::AlreadyRunning),
            }
            let aborted = self.begin_job(&mut state, JobKind::Backup);
            self.set_backup(&mut state, backup_metadata_rules::begin(&request));
            let (started_sender, started) = oneshot::channel();
            tokio::spawn(self.clone().run_backup(request, aborted, started_sender));
            started
        };
        started.await.unwrap_or(Err(BackupError::Internal))?;
        Ok(JobStart::Started)
    }

    /// Aborts the running backup.
    pub(crate) async fn abort_backup(&self, id: &BackupId) -> Result<(), BackupError> {
        {
            let state = self.lock();
            backup_metadata_rules::require_running(state.backup.as_ref(), id)
                .map_err(|error| BackupError::Abort(Box::new(error)))?;
            // While the state is locked, because after the backup's end this would abort the next job.
            state.abort(AbortReason::Requested);
        }
        if tokio::time::timeout(ABORT_TIMEOUT, self.wait_until_ended())
            .await
            .is_err()
        {
            tracing::warn!("the aborted backup has not ended within {ABORT_TIMEOUT:?}");
        }
        Ok(())
    }

    async fn run_backup(
        self,
        request: BackupRequest,
        aborted: AbortSignal,
        started_sender: oneshot::Sender<Result<(), BackupError>>,
    ) {
        // Separate tasks, so that a panic ends only the job.
        let task = start_backup::start(self.clone(), request.clone(), aborted.clone());
        let started = tokio::spawn(task).await;
        let domain = match started.unwrap_or(Err(BackupError::Internal)) {
            Ok(domain) => domain,
            Err(error) => {
                tracing::error!(backup = request.name(), reason = %error, "the backup did not start");
                let mut state = self.lock();
                self.set_backup(&mut state, Backup::default());
                self.end_job(&mut state);
                drop(state);
                let _ = started_sender.send(Err(error));
                return;
            }
        };
        tracing::info!(backup = request.name(), "the backup runs");
        // Fails if the caller gave up; virt-handler then repeats the request.
        let _ = started_sender.send(Ok(()));
        let end = self.watch_backup(&request, domain, aborted.clone()).await;
        if request.mode() == Mode::Pull {
            // A QEMU that was killed leaves its socket behind.
            start_backup::remove_socket(self.context.backup_socket.clone()).await;
        }
        let aborted = *aborted.borrow();
        let mut state = self.lock();
        state.export = None;
        let started_record = state.backup.take().unwrap_or_default();
        let keeps_files = matches!(end, BackupEnd::Abandoned(_));
        let record = backup_metadata_rules::complete(
            started_record,
            request.mode(),
            timestamp::now(),
            end,
            aborted,
        );
        match record.failed {
            true => {
                tracing::error!(
                    backup = request.name(),
                    reason = record.backup_msg,
                    "the backup failed"
                );
                if !keeps_files {
                    tokio::spawn(start_backup::remove_directory(
                        request.directory().to_owned(),
                    ));
                }
            }
            false => tracing::info!(backup = request.name(), "the backup has ended"),
        }
        self.set_backup(&mut state, record);
        self.end_job(&mut state);
    }

    async fn watch_backup(
        &self,
        request: &BackupRequest,
        domain: Arc<dyn Domain>,
        aborted: AbortSignal,
    ) -> BackupEnd {
        let watch = watch_backup::watch(Arc::clone(&self.context), domain, request.mode(), aborted);
        let failed = |_| BackupEnd::WatchFailed(BackupError::Internal.to_string());
        tokio::spawn(watch).await.unwrap_or_else(failed)
    }

    /// Changes the record of the backup that starts.
    fn change_backup(&self, change: impl FnOnce(&mut Backup)) {
        let mut state = self.lock();
        let mut record = state.backup.clone().unwrap_or_default();
        change(&mut record);
        self.set_backup(&mut state, record);
    }

    fn set_backup(&self, state: &mut JobState, record: Backup) {
        state.backup = Some(record.clone());
        self.context.recorder.set_backup(record);
    }
}

#[cfg(test)]
mod tests;
