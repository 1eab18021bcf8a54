//! The VMI of a VirtualMachine.

use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value, json};

use super::{
    DEFAULT_NAMESPACE, Manifest, ManifestError, VM, VMI, kubevirt_defaults, missing_memory,
    unknown_fields,
};

/// The VMI that virt-controller makes of a VirtualMachine, without the cluster's defaults.
pub(super) fn convert(machine: &Value) -> Result<Manifest, ManifestError> {
    let metadata = |field: &str| machine.get("metadata")?.get(field).cloned();
    let name = metadata("name").filter(|name| *name != "");
    let name = name.ok_or(ManifestError::Missing("metadata.name"))?;
    let template = machine.get("spec").and_then(|spec| spec.get("template"));
    let Some(Value::Object(template)) = template else {
        return Err(ManifestError::Missing("spec.template"));
    };
    let mut own = match template.get("metadata") {
        Some(Value::Object(own)) => own.clone(),
        _ => Map::new(),
    };
    let namespace =
        metadata("namespace").filter(|namespace| *namespace != "" && !namespace.is_null());
    let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.into());
    let owner = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": VM,
        "name": name,
        "uid": metadata("uid").unwrap_or_else(|| "".into()),
        "controller": true,
        "blockOwnerDeletion": true,
    });
    own.insert("name".to_owned(), name);
    own.insert("namespace".to_owned(), namespace);
    own.insert("ownerReferences".to_owned(), json!([owner]));
    let has = |field: &str| matches!(machine["spec"].get(field), Some(Value::Object(_)));
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    let defaults = match &mut spec {
        Value::Object(spec) => kubevirt_defaults::set(spec, has("instancetype")),
        _ => Vec::new(),
    };
    let added = match &defaults[..] {
        [] => String::new(),
        added => format!("with KubeVirt's defaults ({}), ", added.join(", ")),
    };
    let mut notes = vec![format!(
        "this is a VirtualMachine: its spec.template is used, {added}without the cluster's defaults"
    )];
    notes.extend(not_applied(has("instancetype"), has("preference")));
    let object = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": VMI,
        "metadata": own,
        "spec": spec,
    });
    let vmi = Vmi::from_json(object.to_string().as_bytes())?;
    notes.extend(unknown_fields(machine, VM));
    if !has("instancetype") {
        notes.extend(missing_memory(&vmi));
    }
    Ok(Manifest { vmi, notes })
}

/// What only the cluster adds to a VM.
fn not_applied(has_instance_type: bool, has_preference: bool) -> Option<String> {
    let what = match (has_instance_type, has_preference) {
        (false, false) => return None,
        (true, false) => "its instance type is",
        (false, true) => "its preference is",
        (true, true) => "its instance type and its preference are",
    };
    Some(format!(
        "{what} not applied, which only the cluster can do: give what `virtctl expand --vm NAME` prints, or the \
         VirtualMachineInstance (kubectl get vmi NAME -o yaml)"
    ))
}
