//! Errors of parsing a module's description.

use super::MAX_DESCRIPTION_BYTES;
use crate::HookPoint;
use crate::wit_package::{NEWEST_VERSION, PACKAGE};

/// Why a description is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The text is longer than 64 KiB.
    #[error("its description has {0} bytes, more than {MAX_DESCRIPTION_BYTES}")]
    TooLong(usize),
    /// The text is not a JSON object.
    #[error("its description is not a JSON object: {0}")]
    NotAnObject(String),
    /// A member has the wrong type or range.
    #[error("in its description, {member} should be {expected}, not {found}")]
    Member {
        /// The path of the member.
        member: String,
        /// The expected type.
        expected: &'static str,
        /// The value as JSON, shortened.
        found: String,
    },
    /// A wish is invalid.
    #[error("in its description, {member}: {reason}")]
    Wish {
        /// The list of wishes.
        member: String,
        /// What is invalid.
        reason: String,
    },
    /// The description names a hook point, a migration parameter or a fact about the pod that this host does not have.
    #[error(
        "in its description, {member} has {name:?}, which this host of {PACKAGE}@{NEWEST_VERSION} does not have (it has \
         {known}): correct the name, build the module without it, or use a version of virt-launcher or virt-hook that \
         has it"
    )]
    UnknownName {
        /// The path of the member.
        member: &'static str,
        /// The name, shortened.
        name: String,
        /// The names that this host has.
        known: String,
    },
    /// The description subscribes to a hook point of an optional interface that the module does not export.
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
