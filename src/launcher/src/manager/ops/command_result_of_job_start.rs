//! What a request to start a job did.

use crate::jobs::JobStart;
use crate::manager::CommandSuccess;
use crate::manager::error::OpError;

pub(super) fn effect_of(start: JobStart) -> Result<CommandSuccess, OpError> {
    match start {
        JobStart::Started => Ok(CommandSuccess::Changed),
        JobStart::AlreadyRunning | JobStart::AlreadyDone => Ok(CommandSuccess::AlreadySo),
        JobStart::AlreadyExecuted(record) => Err(OpError::MigrationExecuted {
            uid: record.uid,
            end: record.end_timestamp.unwrap_or_default(),
            failed: record.failed,
            abort_status: record.abort_status,
        }),
        JobStart::Busy(running) => Err(OpError::JobRuns(running)),
    }
}
