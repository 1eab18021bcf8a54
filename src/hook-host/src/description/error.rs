//! Why a description is invalid.

use super::MAX_BYTES;
use crate::HookPoint;

/// Why a description is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The text is longer than 64 KiB.
    #[error("its description has {0} bytes, more than {MAX_BYTES}")]
    TooLong(usize),
    /// The text is not a JSON object.
    #[error("its description is not a JSON object: {0}")]
    NotAnObject(String),
    /// A member has the wrong type or range.
    #[error("in its description, {member} should be {expected}, not {found}")]
    Member {
        /// Which.
        member: String,
        /// The expected type.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// A wish is invalid.
    #[error("in its description, {member}: {reason}")]
    Wish {
        /// Which list.
        member: String,
        /// What is wrong.
        reason: String,
    },
    /// It names a hook point that this host does not know.
    #[error("it wants to be called at {0:?}, which is none of {names}", names = HookPoint::names())]
    UnknownHookPoint(String),
    /// It subscribes to a hook point of an optional interface, and does not export the interface.
    #[error(
        "it wants to be called at {point}, and does not export {interface}: export it, or build the module with an \
         SDK that has this hook point"
    )]
    NoInterface {
        /// The hook point.
        point: HookPoint,
        /// The interface with its version.
        interface: &'static str,
    },
}
