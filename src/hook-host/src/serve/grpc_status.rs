//! Maps hook errors to gRPC statuses.
//!
//! KubeVirt's launcher shows a status as `rpc error: code = CODE desc = TEXT`, in its log and in the
//! VMI's `SyncFailed` event (a plugin's with the plugin's name before it), so the text must contain
//! everything: the hook, the hook point and the message.

use tonic::{Code, Status};

use crate::HookError;
use crate::printable::printable;

/// The most bytes of a text, besides a note of what is left out: it travels in an HTTP/2 header.
const MAX_TEXT: usize = 4096;

/// The status for an error: FAILED_PRECONDITION for a veto, PERMISSION_DENIED for a change that the
/// policy denies, and a fault of the hook, the host or the caller otherwise.
pub(super) fn of(error: &HookError) -> Status {
    let code = match error {
        HookError::Veto { .. } => Code::FailedPrecondition,
        HookError::Denied { .. } => Code::PermissionDenied,
        HookError::Deadline { .. } | HookError::ChainDeadline { .. } => Code::DeadlineExceeded,
        HookError::BadInput { .. } => Code::InvalidArgument,
        _ => Code::Internal,
    };
    Status::new(code, printable(&error.to_string(), MAX_TEXT))
}

/// The status for a request that cannot be used.
pub(super) fn invalid(what: String) -> Status {
    let what = printable(&what, MAX_TEXT);
    tracing::error!(reason = what, "a call cannot be used");
    Status::invalid_argument(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HookPoint;

    #[test]
    fn a_veto_and_a_denial_are_not_internal_errors() {
        let (hook, point) = ("h".to_owned(), HookPoint::OnDefineDomain);
        let veto = of(&HookError::Veto {
            hook: hook.clone(),
            point,
            message: "licence expired".into(),
        });
        assert_eq!(veto.code(), Code::FailedPrecondition);
        assert_eq!(
            veto.message(),
            "hook h refuses at OnDefineDomain: licence expired"
        );
        let denied = of(&HookError::Denied {
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
        let trap = of(&HookError::Trap {
            hook,
            point,
            message: "x".repeat(10_000),
        });
        assert_eq!(trap.code(), Code::Internal);
        assert!(trap.message().len() < MAX_TEXT + 100, "cut");
        assert!(trap.message().ends_with(" more bytes)"), "and said so");
    }
}
