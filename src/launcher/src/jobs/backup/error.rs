//! Errors of backups.

use std::path::PathBuf;

use crate::blocking::NoAnswer;
use crate::jobs::{AbortReason, JobKind};
use crate::libvirt_client::{CallError, SnapshotError};

/// Why a request about a backup failed. libvirt's errors keep the form that KubeVirt's users search for.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A call of libvirt failed or timed out.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Reading the domain failed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A file operation timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// Another backup is running.
    #[error("backup {0} already in progress, need to wait for completion")]
    InProgress(String),
    /// The same backup has ended.
    #[error("backup {name} that started at {start} has ended at {end}, {}", if *failed { "and failed" } else { "complete" })]
    AlreadyEnded {
        /// The backup's name.
        name: String,
        /// When the backup started.
        start: String,
        /// When the backup ended.
        end: String,
        /// Whether the backup failed.
        failed: bool,
    },
    /// A job of another kind is running.
    #[error("failed to do backup: {0} is in progress; try again when it has ended")]
    OtherJobRuns(JobKind),
    /// The VM migrates from or to this pod.
    #[error("failed to do backup, VMI is currently during migration")]
    MigrationRuns,
    /// There is no backup to abort or export.
    #[error("could not find ongoing backup")]
    NotFound,
    /// The backup has no start time.
    #[error("backup did not start yet")]
    NotStarted,
    /// The request names another backup than the running one.
    #[error("requested backup differs from ongoing one")]
    OtherBackup,
    /// The backup has ended.
    #[error("backup already completed")]
    Completed,
    /// The backup cannot be aborted.
    #[error("failed to abort backup: {0}")]
    Abort(#[source] Box<BackupError>),
    /// The domain does not exist or does not run.
    #[error("there is no running domain {0} to back up")]
    NoDomain(String),
    /// No disk has its changed blocks tracked.
    #[error(
        "no disk of the domain has its changed blocks tracked, so that there is nothing to back up"
    )]
    NoTrackedDisk,
    /// The directory of the backup cannot be created.
    #[error(
        "the directory {path} for the backup cannot be made ({reason}); is its volume attached?"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The file system's error.
        reason: String,
    },
    /// QEMU's socket for the backup does not exist.
    #[error("there is no socket {path} to serve the backup from ({reason})")]
    NoSocket {
        /// The socket.
        path: PathBuf,
        /// The file system's error.
        reason: String,
    },
    /// The backup was aborted before libvirt's job ran.
    #[error("backup aborted, since {0}")]
    Aborted(AbortReason),
    /// The task of the backup panicked.
    #[error(
        "the backup failed inside the launcher; this is a fault of the launcher, please report it"
    )]
    Internal,
}
