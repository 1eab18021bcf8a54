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

/// How to get a VMI instead of a manifest of this kind.
pub(super) fn remedy(kind: &str) -> &'static str {
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
