//! Backups of disks, and the checkpoints that incremental backups start from.

use crate::error::Result;

/// The backups and checkpoints of a running domain.
pub trait Checkpoints {
    /// Starts a backup, and creates a checkpoint of the same moment. The backup is a job
    /// ([`JobOperation::Backup`](crate::JobOperation::Backup)): the call returns once the job runs. In push mode the
    /// job ends by itself, in pull mode when it is [aborted](crate::Jobs::abort_job).
    ///
    /// Fails with [`NO_DOMAIN_CHECKPOINT`](crate::error::code::NO_DOMAIN_CHECKPOINT) when libvirt does not know
    /// the checkpoint that an incremental backup starts from, and with
    /// [`OPERATION_TIMEOUT`](crate::error::code::OPERATION_TIMEOUT) when another job runs.
    fn begin_backup(&self, backup_xml: &str, checkpoint_xml: &str) -> Result<()>;

    /// Redefines a checkpoint whose bitmaps exist in the disks' images. libvirt validates the bitmaps.
    ///
    /// Fails with [`INVALID_DOMAIN_CHECKPOINT`](crate::error::code::INVALID_DOMAIN_CHECKPOINT),
    /// [`NO_DOMAIN_CHECKPOINT`](crate::error::code::NO_DOMAIN_CHECKPOINT) or
    /// [`CHECKPOINT_INCONSISTENT`](crate::error::code::CHECKPOINT_INCONSISTENT) when the bitmaps are
    /// missing or damaged.
    fn redefine_checkpoint(&self, xml: &str) -> Result<()>;
}
