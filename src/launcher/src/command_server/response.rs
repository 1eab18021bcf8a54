//! Makes the responses of the command service: a failed command is `success=false` with a message, not a gRPC error.

use proto::cmd::v1::Response as Answer;
use tonic::{Response, Status};

use crate::manager::CommandResult;

/// The message of a failure without a reason.
const NO_REASON: &str = "the command failed, and the reason is empty";

/// The result of a method of the service.
pub(super) type Reply<T> = Result<Response<T>, Status>;

pub(super) fn ok() -> Answer {
    Answer {
        success: true,
        message: String::new(),
    }
}

/// The response to a failed command. Its message is never empty: virt-handler of v1.10 takes a failure without a
/// message for a success.
pub(super) fn failed(message: impl ToString) -> Answer {
    let message = message.to_string();
    Answer {
        success: false,
        message: match message.trim() {
            "" => NO_REASON.to_owned(),
            _ => message,
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_a_message() {
        for (reason, message) in [("", NO_REASON), (" \n", NO_REASON), ("no disk", "no disk")] {
            assert_eq!(
                failed(reason),
                Answer {
                    success: false,
                    message: message.to_owned()
                }
            );
        }
    }
}
