//! Backups of disks, and the checkpoints that incremental backups start from.

use crate::error::Result;

/// The backups and checkpoints of a running domain.
pub trait Checkpoints {
    /// Begins a backup, and creates a checkpoint at the same moment. The backup is a job
    /// ([`JobOperation::Backup`](crate::JobOperation::Backup)): the call returns when the job runs. In push mode the job
    /// ends by itself, in pull mode when it is [aborted](crate::Jobs::abort_job).
    ///
    /// Fails with [`NO_DOMAIN_CHECKPOINT`](crate::error::code::NO_DOMAIN_CHECKPOINT) when the checkpoint that an
    /// incremental backup is to start from is not known, and with
    /// [`OPERATION_TIMEOUT`](crate::error::code::OPERATION_TIMEOUT) when another job runs.
    fn begin_backup(&self, backup_xml: &str, checkpoint_xml: &str) -> Result<()>;

    /// Makes a checkpoint known again whose bitmaps exist in the disks' images. The bitmaps are validated.
    ///
    /// Fails with [`INVALID_DOMAIN_CHECKPOINT`](crate::error::code::INVALID_DOMAIN_CHECKPOINT),
    /// [`NO_DOMAIN_CHECKPOINT`](crate::error::code::NO_DOMAIN_CHECKPOINT) or
    /// [`CHECKPOINT_INCONSISTENT`](crate::error::code::CHECKPOINT_INCONSISTENT) when the bitmaps are of no use.
    fn redefine_checkpoint(&self, xml: &str) -> Result<()>;
}
