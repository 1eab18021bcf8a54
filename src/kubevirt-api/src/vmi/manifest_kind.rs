//! The `kind` of a manifest.

use serde_json::Value;

use super::VmiError;

/// The only kind that is accepted.
const VMI: &str = "VirtualMachineInstance";

/// Accepts a VMI, and a manifest without a kind.
pub(super) fn check(manifest: &Value) -> Result<(), VmiError> {
    let kind = match &manifest["kind"] {
        Value::Null => return Ok(()),
        Value::String(kind) if kind.is_empty() || kind == VMI => return Ok(()),
        Value::String(kind) => kind.clone(),
        other => other.to_string(),
    };
    Err(VmiError::Kind { kind })
}
