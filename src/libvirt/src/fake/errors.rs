//! The fake daemon's errors, with the numbers and texts of libvirt's.

use crate::error::{Error, code, origin};

/// An error of libvirt's QEMU driver.
pub(super) fn qemu_error(code: i32, message: impl Into<String>) -> Error {
    Error {
        code,
        domain: origin::QEMU,
        message: message.into(),
    }
}

/// The error of a call that the domain's state does not allow.
pub(super) fn operation_invalid(reason: &str) -> Error {
    let message = format!("Requested operation is not valid: {reason}");
    qemu_error(code::OPERATION_INVALID, message)
}

/// The error of a call on a domain that does not exist.
pub(super) fn domain_not_found(name: &str) -> Error {
    let message = format!("Domain not found: no domain with matching name '{name}'");
    qemu_error(code::NO_DOMAIN, message)
}

/// The error of a job whose domain ended before it.
pub(super) fn domain_ended_during_job() -> Error {
    let message = "operation failed: domain is not running";
    qemu_error(code::OPERATION_FAILED, message)
}

/// The error of XML that cannot be parsed.
pub(super) fn xml_error(problem: &str) -> Error {
    Error {
        code: code::XML_ERROR,
        domain: origin::DOMAIN,
        message: format!("XML error: {problem}"),
    }
}
