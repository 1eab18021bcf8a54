//! The kinds of jobs, and the result of starting one.

use std::fmt;

use kubevirt_api::domain_metadata::Migration;

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Writes the guest's memory to a file.
    MemoryDump,
    /// Migrates the VM to another pod.
    Migration,
    /// Backs up the disks, or serves them to a backup.
    Backup,
}

impl JobKind {
    /// Whether the job may pause the guest, so that a sync must not resume it.
    pub fn pauses_guest(self) -> bool {
        self != JobKind::Backup
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobKind::MemoryDump => "a memory dump",
            JobKind::Migration => "a migration",
            JobKind::Backup => "a backup",
        })
    }
}

/// The result of a request to start a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobStart {
    /// The job was started.
    Started,
    /// The same job is running already; the request has no effect.
    AlreadyRunning,
    /// The last memory dump had the same file name; the request has no effect.
    AlreadyDone,
    /// The last migration had the same UID, and a migration is executed only once.
    AlreadyExecuted(Box<Migration>),
    /// Another job is running.
    Busy(JobKind),
}
