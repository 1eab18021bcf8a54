//! Responses of the command service: an error of the domain is `success=false` with a message, not a gRPC error.

use proto::cmd::v1::Response as Answer;
use tonic::{Response, Status};

use crate::manager::CommandResult;

/// What a method of the service returns.
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

/// The response to a command, whose outcome is logged already under the request's number.
pub(super) fn outcome(outcome: CommandResult) -> Answer {
    match outcome {
        Ok(_) => ok(),
        Err(error) => failed(error.message()),
    }
}

pub(super) fn reply<T>(message: T) -> Reply<T> {
    Ok(Response::new(message))
}
