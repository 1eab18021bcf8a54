//! Makes the VMI of a VirtualMachine from its template.

use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value, json};

use super::manifest_notes::{metadata_outside_template, missing_memory, unknown_fields};
use super::{
    DEFAULT_NAMESPACE, Manifest, ManifestError, VM, VMI, full_name, kubevirt_defaults,
    unquoted_annotations_and_labels,
};

/// The VMI that virt-controller makes of a VirtualMachine, without the cluster's defaults.
pub(super) fn vmi_from_template(vm: &Value) -> Result<Manifest, ManifestError> {
    let metadata = |field: &str| vm.get("metadata")?.get(field).cloned();
    let name = metadata("name").filter(|name| *name != "");
    let name = name.ok_or(ManifestError::Missing("metadata.name"))?;
    let template = vm.get("spec").and_then(|spec| spec.get("template"));
    if let Some(template) = template {
        unquoted_annotations_and_labels::refuse(template, "spec.template.metadata")?;
    }
    let Some(Value::Object(template)) = template else {
        return Err(ManifestError::Missing("spec.template"));
    };
    let mut vmi_metadata = match template.get("metadata") {
        Some(Value::Object(of_template)) => of_template.clone(),
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
    vmi_metadata.insert("name".to_owned(), name);
    vmi_metadata.insert("namespace".to_owned(), namespace);
    vmi_metadata.insert("ownerReferences".to_owned(), json!([owner]));
    let has = |field: &str| matches!(vm["spec"].get(field), Some(Value::Object(_)));
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    let defaults = match &mut spec {
        Value::Object(spec) => {
            let full_name = full_name(vm).unwrap_or_default();
            kubevirt_defaults::set_firmware(spec, &full_name, true);
            kubevirt_defaults::set(spec, has("instancetype"))
        }
        _ => Vec::new(),
    };
    let added = match &defaults[..] {
        [] => String::new(),
        added => format!("with KubeVirt's defaults ({}), ", added.join(", ")),
    };
    let mut notes = vec![format!(
        "this is a VirtualMachine: its spec.template is used, {added}without the cluster's defaults"
    )];
    notes.extend(not_applied_note(has("instancetype"), has("preference")));
    notes.extend(metadata_outside_template(vm));
    let mut object = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": VMI,
        "metadata": vmi_metadata,
        "spec": spec,
    });
    if let Value::Object(object) = &mut object {
        kubevirt_defaults::set_runtime_user(object);
    }
    let vmi = Vmi::from_json(object.to_string().as_bytes())?;
    notes.extend(unknown_fields(vm, VM));
    if !has("instancetype") {
        notes.extend(missing_memory(&vmi));
    }
    Ok(Manifest {
        vmi,
        is_of_template: true,
        notes,
    })
}

/// A note about the instance type and the preference, which only the cluster applies.
fn not_applied_note(has_instance_type: bool, has_preference: bool) -> Option<String> {
    let unresolved = match (has_instance_type, has_preference) {
        (false, false) => return None,
        (true, false) => "its instance type is",
        (false, true) => "its preference is",
        (true, true) => "its instance type and its preference are",
    };
    Some(format!(
        "{unresolved} not applied, which only the cluster can do: give what `virtctl expand --vm NAME` prints, or the \
         VirtualMachineInstance (kubectl get vmi NAME -o yaml)"
    ))
}
