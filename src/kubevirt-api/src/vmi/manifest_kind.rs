//! Checks that the `kind` of a manifest is `VirtualMachineInstance`.

use serde_json::Value;

use super::VmiError;

/// The only accepted kind.
const VMI: &str = "VirtualMachineInstance";

/// Returns an error for another kind. A manifest without a kind is accepted.
pub(super) fn check(manifest: &Value) -> Result<(), VmiError> {
    let kind = match &manifest["kind"] {
        Value::Null => return Ok(()),
        Value::String(kind) if kind.is_empty() || kind == VMI => return Ok(()),
        Value::String(kind) => kind.clone(),
        other => other.to_string(),
    };
    Err(VmiError::Kind { kind })
}
