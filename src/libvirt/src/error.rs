//! Errors of libvirt.

use std::fmt::Write;

/// The most bytes of libvirt's sentence that are printed.
const MAX_MESSAGE: usize = 4096;

/// A libvirt error, number and text as libvirt gave them.
///
/// `Display` is the form that KubeVirt's users and log searches know:
/// `virError(Code=86, Domain=10, Message='...')`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("virError(Code={code}, Domain={domain}, Message='{}')", self.printable_message())]
pub struct Error {
    /// `virErrorNumber`; see [`code`] for the ones this project looks at.
    pub code: i32,
    /// `virErrorDomain`: the part of libvirt that raised it (10 is the QEMU driver).
    pub domain: i32,
    /// libvirt's own sentence, which quotes the domain. [`Error::printable_message`] is for people.
    pub message: String,
}

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `virErrorNumber` values that callers decide upon.
pub mod code {
    /// Internal error, also what a closed connection gives.
    pub const INTERNAL_ERROR: i32 = 1;
    /// The driver does not implement the call.
    pub const NO_SUPPORT: i32 = 3;
    /// An argument was wrong, e.g. a string with a NUL in it.
    pub const INVALID_ARG: i32 = 8;
    /// A hypervisor operation failed.
    pub const OPERATION_FAILED: i32 = 9;
    /// The domain XML could not be parsed.
    pub const XML_ERROR: i32 = 27;
    /// A system call failed, e.g. connecting to the daemon's socket.
    pub const SYSTEM_ERROR: i32 = 38;
    /// There is no such domain.
    pub const NO_DOMAIN: i32 = 42;
    /// The domain is not in a state that allows the call.
    pub const OPERATION_INVALID: i32 = 55;
    /// The domain's job lock was not to be had in time.
    pub const OPERATION_TIMEOUT: i32 = 68;
    /// A job was aborted by request.
    pub const OPERATION_ABORTED: i32 = 78;
    /// The domain has no guest agent channel configured.
    pub const ARGUMENT_UNSUPPORTED: i32 = 74;
    /// The operation is not supported in this configuration.
    pub const OPERATION_UNSUPPORTED: i32 = 84;
    /// A checkpoint, or a bitmap of it, is not as it should be.
    pub const INVALID_DOMAIN_CHECKPOINT: i32 = 102;
    /// There is no such checkpoint.
    pub const NO_DOMAIN_CHECKPOINT: i32 = 103;
    /// The bitmaps of a checkpoint are damaged.
    pub const CHECKPOINT_INCONSISTENT: i32 = 109;
    /// The guest agent is not connected or did not answer in time.
    pub const AGENT_UNRESPONSIVE: i32 = 86;
    /// The domain has no such device.
    pub const DEVICE_MISSING: i32 = 99;
    /// The guest agent did not answer a command within its timeout.
    pub const AGENT_COMMAND_TIMEOUT: i32 = 112;
    /// The guest agent answered a command with an error.
    pub const AGENT_COMMAND_FAILED: i32 = 113;
}

/// `virErrorDomain` values used by this crate itself.
pub(crate) mod origin {
    pub(crate) const NONE: i32 = 0;
    pub(crate) const RPC: i32 = 7;
    pub(crate) const QEMU: i32 = 10;
    pub(crate) const DOMAIN: i32 = 20;
}

impl Error {
    /// libvirt's sentence on one line, cut, with escapes for control, invisible and bidirectional characters: it quotes
    /// values of the domain, which hooks and the VM's owner write.
    pub fn printable_message(&self) -> String {
        let mut text = String::with_capacity(self.message.len().min(MAX_MESSAGE));
        for (at, c) in self.message.char_indices() {
            if text.len() >= MAX_MESSAGE {
                // Writing to a string cannot fail.
                let _ = write!(text, " ... ({} more bytes)", self.message.len() - at);
                break;
            }
            match c {
                '\'' | '"' | '\\' => text.push(c),
                c => text.extend(c.escape_debug()),
            }
        }
        text
    }

    /// Whether the call never left this process: the connection had ended before. It can be repeated on another.
    pub fn is_unsent(&self) -> bool {
        self.code == code::INTERNAL_ERROR && self.message.ends_with("client socket is closed")
    }

    /// The domain does not exist (any more).
    pub fn is_no_domain(&self) -> bool {
        self.code == code::NO_DOMAIN
    }

    /// The domain is in no state for the call: it is already so, or not running.
    pub fn is_operation_invalid(&self) -> bool {
        self.code == code::OPERATION_INVALID
    }

    /// The guest agent is absent or silent.
    pub fn is_agent_unresponsive(&self) -> bool {
        self.code == code::AGENT_UNRESPONSIVE
    }

    /// The domain has no such device.
    pub fn is_device_missing(&self) -> bool {
        self.code == code::DEVICE_MISSING
    }

    /// An argument that cannot be handed to libvirt at all.
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
    fn texts_of_the_domain_are_escaped_and_cut() {
        let error = |message: &str| Error {
            code: 1,
            domain: 10,
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
