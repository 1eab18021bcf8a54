//! The result of a command that starts a job.

use crate::jobs::JobStart;
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;

/// Converts the result of a job's start to that of its command.
pub(super) fn command_result(start: JobStart) -> Result<CommandSuccess, OpError> {
    match start {
        JobStart::Started => Ok(CommandSuccess::Changed),
        JobStart::AlreadyRunning | JobStart::AlreadyDone => Ok(CommandSuccess::Unchanged),
        JobStart::AlreadyExecuted(record) => Err(OpError::MigrationExecuted {
            uid: record.uid,
            end: record.end_timestamp.unwrap_or_default(),
            failed: record.failed,
            abort_status: record.abort_status,
        }),
        JobStart::Busy(running) => Err(OpError::OtherJobRuns(running)),
    }
}
