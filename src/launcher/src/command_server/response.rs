//! Makes the responses of the command service: a failed command is `success=false` with a message, not a gRPC error.

use proto::cmd::v1::Response as Answer;
use tonic::{Response, Status};

use crate::manager::CommandResult;

/// The result of a method of the service.
pub(super) type Reply<T> = Result<Response<T>, Status>;

pub(super) fn ok() -> Answer {
    Answer {
        success: true,
        message: String::new(),
    }
}

pub(super) fn failed(message: impl ToString) -> Answer {
    Answer {
        success: false,
        message: message.to_string(),
    }
}

/// The response to a command. It is not logged here, since the driver has logged the outcome with the request's number.
pub(super) fn outcome(outcome: CommandResult) -> Answer {
    match outcome {
        Ok(_) => ok(),
        Err(error) => failed(error.message()),
    }
}

pub(super) fn reply<T>(message: T) -> Reply<T> {
    Ok(Response::new(message))
}
