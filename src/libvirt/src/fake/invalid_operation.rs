//! The error that most refused calls give.

use crate::error::{Error, code, origin};

/// libvirt's error for a call that the domain's state does not allow.
pub(super) fn invalid(why: &str) -> Error {
    Error {
        code: code::OPERATION_INVALID,
        domain: origin::QEMU,
        message: format!("Requested operation is not valid: {why}"),
    }
}
