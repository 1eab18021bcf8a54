//! Errors of backups.

use std::path::PathBuf;

use crate::blocking::NoAnswer;
use crate::jobs::{AbortReason, JobKind};
use crate::libvirt_client::{CallError, SnapshotError};

/// A request about a backup failed. libvirt's errors keep their own form, by which KubeVirt's users search.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// libvirt refused, or gave no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The domain could not be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A file operation took too long.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// Another backup runs.
    #[error("backup {0} already in progress, need to wait for completion")]
    InProgress(String),
    /// The same backup has ended.
    #[error("backup {name} that started at {start} has ended at {end}, {}", if *failed { "and failed" } else { "complete" })]
    AlreadyEnded {
        /// Its name.
        name: String,
        /// Its start.
        start: String,
        /// Its end.
        end: String,
        /// Whether it failed.
        failed: bool,
    },
    /// A job of another kind runs.
    #[error("failed to do backup: {0} is in progress; try again when it has ended")]
    JobRuns(JobKind),
    /// The VM moves to another pod.
    #[error("failed to do backup, VMI is currently during migration")]
    Migrates,
    /// There is no backup.
    #[error("could not find ongoing backup")]
    NotFound,
    /// The backup has no start time.
    #[error("backup did not start yet")]
    NotStarted,
    /// The request is about another backup.
    #[error("requested backup differs from ongoing one")]
    Differs,
    /// The backup has ended.
    #[error("backup already completed")]
    Completed,
    /// The backup cannot be aborted.
    #[error("failed to abort backup: {0}")]
    Abort(#[source] Box<BackupError>),
    /// There is no domain.
    #[error("there is no running domain {0} to back up")]
    NoDomain(String),
    /// No disk has bitmaps.
    #[error(
        "no disk of the domain has its changed blocks tracked, so that there is nothing to back up"
    )]
    NoTrackedDisk,
    /// The directory cannot be made.
    #[error(
        "the directory {path} for the backup cannot be made ({reason}); is its volume attached?"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// QEMU serves nothing.
    #[error("there is no socket {path} to serve the backup from ({reason})")]
    NoSocket {
        /// The socket.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The job was asked to end before it ran.
    #[error("backup aborted, since {0}")]
    Aborted(AbortReason),
    /// The task of the backup ended without a result.
    #[error(
        "the backup failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Fault,
}
