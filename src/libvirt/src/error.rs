//! Errors of libvirt.

use std::fmt::Write;

/// Maximum length of the printed message, in bytes.
const MAX_PRINTED_BYTES: usize = 4096;

/// A libvirt error, with the numbers and the text that libvirt reported.
///
/// `Display` is the form that KubeVirt's users and log searches know:
/// `virError(Code=86, Domain=10, Message='...')`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("virError(Code={code}, Domain={domain}, Message='{}')", self.printable_message())]
pub struct Error {
    /// `virErrorNumber`; [`code`] has the numbers that callers test for.
    pub code: i32,
    /// `virErrorDomain`: the part of libvirt that raised the error (10 is the QEMU driver, see [`origin`]).
    pub domain: i32,
    /// libvirt's message, which quotes values of the domain. [`Error::printable_message`] is safe to print.
    pub message: String,
}

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `virErrorNumber` values that callers test for.
pub mod code {
    use virt_sys as sys;

    /// An internal error; also the error of a call on a closed connection.
    pub const INTERNAL_ERROR: i32 = sys::VIR_ERR_INTERNAL_ERROR.cast_signed();
    /// The driver does not implement the call.
    pub const NO_SUPPORT: i32 = sys::VIR_ERR_NO_SUPPORT.cast_signed();
    /// An argument is invalid, e.g. a string that contains a NUL byte.
    pub const INVALID_ARG: i32 = sys::VIR_ERR_INVALID_ARG.cast_signed();
    /// A hypervisor operation failed.
    pub const OPERATION_FAILED: i32 = sys::VIR_ERR_OPERATION_FAILED.cast_signed();
    /// The domain XML could not be parsed.
    pub const XML_ERROR: i32 = sys::VIR_ERR_XML_ERROR.cast_signed();
    /// A system call failed, e.g. connecting to the daemon's socket.
    pub const SYSTEM_ERROR: i32 = sys::VIR_ERR_SYSTEM_ERROR.cast_signed();
    /// There is no such domain.
    pub const NO_DOMAIN: i32 = sys::VIR_ERR_NO_DOMAIN.cast_signed();
    /// The domain is not in a state that allows the call.
    pub const OPERATION_INVALID: i32 = sys::VIR_ERR_OPERATION_INVALID.cast_signed();
    /// The domain's job lock could not be acquired within libvirt's timeout.
    pub const OPERATION_TIMEOUT: i32 = sys::VIR_ERR_OPERATION_TIMEOUT.cast_signed();
    /// A job was aborted by request.
    pub const OPERATION_ABORTED: i32 = sys::VIR_ERR_OPERATION_ABORTED.cast_signed();
    /// The domain has no guest agent channel configured.
    pub const ARGUMENT_UNSUPPORTED: i32 = sys::VIR_ERR_ARGUMENT_UNSUPPORTED.cast_signed();
    /// The domain's configuration does not allow the setting, e.g. a disk with an IO thread that the domain lacks.
    pub const CONFIG_UNSUPPORTED: i32 = sys::VIR_ERR_CONFIG_UNSUPPORTED.cast_signed();
    /// The operation is not supported in this configuration.
    pub const OPERATION_UNSUPPORTED: i32 = sys::VIR_ERR_OPERATION_UNSUPPORTED.cast_signed();
    /// A checkpoint or one of its bitmaps is invalid.
    pub const INVALID_DOMAIN_CHECKPOINT: i32 = sys::VIR_ERR_INVALID_DOMAIN_CHECKPOINT.cast_signed();
    /// There is no such checkpoint.
    pub const NO_DOMAIN_CHECKPOINT: i32 = sys::VIR_ERR_NO_DOMAIN_CHECKPOINT.cast_signed();
    /// The bitmaps of a checkpoint are damaged.
    pub const CHECKPOINT_INCONSISTENT: i32 = sys::VIR_ERR_CHECKPOINT_INCONSISTENT.cast_signed();
    /// The guest agent is not connected or did not answer in time.
    pub const AGENT_UNRESPONSIVE: i32 = sys::VIR_ERR_AGENT_UNRESPONSIVE.cast_signed();
    /// The domain has no such device.
    pub const DEVICE_MISSING: i32 = sys::VIR_ERR_DEVICE_MISSING.cast_signed();
    /// The guest agent did not answer a command within its timeout.
    pub const AGENT_COMMAND_TIMEOUT: i32 = sys::VIR_ERR_AGENT_COMMAND_TIMEOUT.cast_signed();
    /// The guest agent answered a command with an error.
    pub const AGENT_COMMAND_FAILED: i32 = sys::VIR_ERR_AGENT_COMMAND_FAILED.cast_signed();
}

/// `virErrorDomain` values: the parts of libvirt that raise errors.
pub mod origin {
    use virt_sys as sys;

    /// No part in particular; also the errors of this crate itself.
    pub const NONE: i32 = sys::VIR_FROM_NONE.cast_signed();
    /// The connection to the daemon.
    pub const RPC: i32 = sys::VIR_FROM_RPC.cast_signed();
    /// The QEMU driver.
    pub const QEMU: i32 = sys::VIR_FROM_QEMU.cast_signed();
    /// The parser of domain XML.
    pub const DOMAIN: i32 = sys::VIR_FROM_DOMAIN.cast_signed();
    /// Checkpoints of a domain.
    pub const DOMAIN_CHECKPOINT: i32 = sys::VIR_FROM_DOMAIN_CHECKPOINT.cast_signed();
}

impl Error {
    /// libvirt's message on one line, truncated, with escapes for control, invisible and bidirectional characters: the
    /// message quotes values of the domain, which hooks and the VM's owner write.
    pub fn printable_message(&self) -> String {
        let mut text = String::with_capacity(self.message.len().min(MAX_PRINTED_BYTES));
        for (offset, c) in self.message.char_indices() {
            if text.len() >= MAX_PRINTED_BYTES {
                // Writing to a string cannot fail.
                let _ = write!(text, " ... ({} more bytes)", self.message.len() - offset);
                break;
            }
            match c {
                '\'' | '"' | '\\' => text.push(c),
                c => text.extend(c.escape_debug()),
            }
        }
        text
    }

    /// Whether the call never left this process, since the connection had ended before. The caller can repeat the call
    /// on another connection.
    pub fn is_unsent(&self) -> bool {
        self.code == code::INTERNAL_ERROR && self.message.ends_with("client socket is closed")
    }

    /// The domain does not exist (any more).
    pub fn is_no_domain(&self) -> bool {
        self.code == code::NO_DOMAIN
    }

    /// The domain's state does not allow the call: the domain is not running, or is in the requested state already.
    pub fn is_operation_invalid(&self) -> bool {
        self.code == code::OPERATION_INVALID
    }

    /// The guest agent is not connected or does not answer.
    pub fn is_agent_unresponsive(&self) -> bool {
        self.code == code::AGENT_UNRESPONSIVE
    }

    /// The domain has no such device.
    pub fn is_device_missing(&self) -> bool {
        self.code == code::DEVICE_MISSING
    }

    /// The error for an argument that cannot be passed to libvirt at all.
    pub(crate) fn invalid_argument(what: &str) -> Self {
        Error {
            code: code::INVALID_ARG,
            domain: origin::NONE,
            message: format!("invalid argument: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_message_is_escaped_and_truncated() {
        let error = |message: &str| Error {
            code: code::INTERNAL_ERROR,
            domain: origin::QEMU,
            message: message.to_owned(),
        };
        assert_eq!(
            error("no 'größer' \u{9b}\u{202e}\n\u{1b}[2J").to_string(),
            "virError(Code=1, Domain=10, Message='no 'größer' \\u{9b}\\u{202e}\\n\\u{1b}[2J')"
        );
        let long = error(&"x".repeat(1 << 20)).printable_message();
        assert!(long.len() < 5000 && long.ends_with("x ... (1044480 more bytes)"));
    }
}
