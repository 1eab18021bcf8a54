//! Errors of parsing a VMI.

use super::MAX_BYTES;
use crate::strict_json_or_yaml::SyntaxError;

/// Why a VMI cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum VmiError {
    /// The VMI exceeds [`MAX_BYTES`].
    #[error("the VMI has {bytes} bytes, more than the {MAX_BYTES} that are read")]
    TooLarge {
        /// The size of the VMI.
        bytes: usize,
    },
    /// The VMI is neither JSON nor YAML, or a key is repeated.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A field has the wrong type, or an invalid name.
    #[error("the VMI's field {path}: {message}")]
    Field {
        /// Path of the field, such as `spec.domain.cpu.cores`.
        path: String,
        /// The value, and the expected type or the reason.
        message: String,
    },
    /// The manifest has another kind.
    #[error("this is a {kind}, not a VirtualMachineInstance: {}", remedy(.kind))]
    Kind {
        /// The manifest's `kind`.
        kind: String,
    },
    /// A required field is empty or missing.
    #[error("the VMI's field {0} is missing")]
    Missing(&'static str),
}

/// How to get a VMI instead of a manifest of this kind.
fn remedy(kind: &str) -> &'static str {
    match kind {
        "VirtualMachine" | "VirtualMachineInstanceReplicaSet" => {
            "give the VMI of a running one (kubectl get vmi NAME -o yaml), or its spec.template \
             with a metadata.name"
        }
        "VirtualMachinePool" => {
            "give the VMI of a running one (kubectl get vmi NAME -o yaml), or its \
             spec.virtualMachineTemplate.spec.template with a metadata.name"
        }
        "List" | "VirtualMachineInstanceList" => {
            "give one of its items (kubectl get vmi NAME -o yaml)"
        }
        _ => "give what kubectl get vmi NAME -o yaml prints",
    }
}

/// serde's message without the names of this crate's types.
pub(super) fn plain_message(message: &str) -> String {
    let plain = message.replace("unit value", "null");
    match plain.split_once("expected struct ") {
        Some((start, _)) => format!("{start}expected an object"),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_name_types_of_this_crate() {
        for (message, plain) in [
            (
                "invalid type: integer `12`, expected struct Memory",
                "invalid type: integer `12`, expected an object",
            ),
            (
                "invalid type: unit value, expected a string",
                "invalid type: null, expected a string",
            ),
        ] {
            assert_eq!(plain_message(message), plain);
        }
    }
}
