//! The answer to a request to start a job.

use crate::jobs::JobStart;
use crate::manager::Answer;
use crate::manager::error::OpError;

pub(super) fn answer(start: JobStart) -> Result<Answer, OpError> {
    match start {
        JobStart::Started => Ok(Answer::Done),
        JobStart::AlreadyRunning | JobStart::AlreadyDone => Ok(Answer::NothingToDo),
        JobStart::AlreadyExecuted(record) => Err(OpError::MigrationExecuted {
            uid: record.uid,
            end: record.end_timestamp.unwrap_or_default(),
            failed: record.failed,
            abort_status: record.abort_status,
        }),
        JobStart::Busy(running) => Err(OpError::JobRuns(running)),
    }
}
