//! Converts hook errors to gRPC statuses.
//!
//! KubeVirt's launcher shows a status as `rpc error: code = CODE desc = TEXT`, in its log and in the
//! VMI's `SyncFailed` event (a plugin's with the plugin's name before it), so the text must contain
//! the hook, the hook point and the message.

use tonic::{Code, Status};

use crate::HookError;
use crate::printable::printable;

/// Maximum length of a status text in bytes, without the note of what is left out. The text is sent in an HTTP/2
/// header.
const MAX_TEXT_BYTES: usize = 4096;

/// The status for an error: FAILED_PRECONDITION for a veto, PERMISSION_DENIED for a change that is not granted,
/// DEADLINE_EXCEEDED for a deadline, INVALID_ARGUMENT for an invalid input, and INTERNAL otherwise.
pub(super) fn from_hook_error(error: &HookError) -> Status {
    let code = match error {
        HookError::Veto { .. } => Code::FailedPrecondition,
        HookError::Denied { .. } => Code::PermissionDenied,
        HookError::Deadline { .. } | HookError::ChainDeadline { .. } => Code::DeadlineExceeded,
        HookError::BadInput { .. } => Code::InvalidArgument,
        _ => Code::Internal,
    };
    Status::new(code, printable(&error.to_string(), MAX_TEXT_BYTES))
}

/// The status for an invalid request, which is also logged.
pub(super) fn invalid_request(message: String) -> Status {
    let message = printable(&message, MAX_TEXT_BYTES);
    tracing::error!(reason = message, "a call cannot be used");
    Status::invalid_argument(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HookPoint;

    #[test]
    fn a_veto_and_a_denial_have_their_own_codes_and_long_texts_are_cut() {
        let (hook, point) = ("h".to_owned(), HookPoint::OnDefineDomain);
        let veto = from_hook_error(&HookError::Veto {
            hook: hook.clone(),
            point,
            message: "licence expired".into(),
        });
        assert_eq!(veto.code(), Code::FailedPrecondition);
        assert_eq!(
            veto.message(),
            "hook h refuses at OnDefineDomain: licence expired"
        );
        let denied = from_hook_error(&HookError::Denied {
            hook: hook.clone(),
            point,
            path: "/domain/title".into(),
            before: None,
            after: None,
            remedy: "allow it".into(),
        });
        assert_eq!(denied.code(), Code::PermissionDenied);
        assert!(
            denied
                .message()
                .contains("hook h may not change /domain/title")
        );
        let trap = from_hook_error(&HookError::Trap {
            hook,
            point,
            message: "x".repeat(10_000),
        });
        assert_eq!(trap.code(), Code::Internal);
        assert!(trap.message().len() < MAX_TEXT_BYTES + 100, "cut");
        assert!(trap.message().ends_with(" more bytes)"), "and said so");
    }
}
