//! Calls of the launcher with a deadline, and why they fail.

use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};

use crate::emulated_virt_handler::command_client::{Answer, COMMAND_TIMEOUT};

/// Why a call of the launcher failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// There is no client: the socket is missing, or nothing listens on it.
    NotConnected(String),
    /// The launcher answered with this error message.
    Refused(String),
    /// The launcher did not answer within this deadline.
    Deadline(Duration),
    /// The connection was closed, for example because the launcher exited.
    Disconnected,
    /// Another gRPC error.
    Failed(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NotConnected(why) => write!(formatter, "not connected: {why}"),
            CallError::Refused(message) => write!(formatter, "refused: {message}"),
            CallError::Deadline(limit) => write!(formatter, "no answer within {limit:?}"),
            CallError::Disconnected => write!(formatter, "disconnected"),
            CallError::Failed(status) => write!(formatter, "{status}"),
        }
    }
}

/// Makes a call with this deadline.
pub(super) async fn call_with_deadline(
    limit: Duration,
    call: impl Future<Output = Result<Answer, Status>>,
) -> Result<(), CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) if answer.success => Ok(()),
        Ok(Ok(answer)) => Err(CallError::Refused(answer.message)),
        Ok(Err(status)) => Err(call_error(&status, limit)),
        Err(_) => Err(CallError::Deadline(limit)),
    }
}

/// Makes a call with virt-handler's deadline of a command.
pub(super) async fn command_with_deadline(
    call: impl Future<Output = Result<Answer, Status>>,
) -> Result<(), CallError> {
    call_with_deadline(COMMAND_TIMEOUT, call).await
}

fn call_error(status: &Status, limit: Duration) -> CallError {
    match status.code() {
        // tonic reports a missed deadline as Cancelled, Go as DeadlineExceeded.
        Code::Cancelled if status.message().contains("Timeout expired") => {
            CallError::Deadline(limit)
        }
        Code::Cancelled => CallError::Disconnected,
        _ => CallError::Failed(status.to_string()),
    }
}
