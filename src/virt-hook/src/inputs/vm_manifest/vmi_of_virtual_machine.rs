//! Makes the VMI of a VirtualMachine from its template.

use hook_host::printable;
use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value, json};

use super::manifest_notes::{MAX_FIELDS, missing_memory, unknown_fields};
use super::{
    DEFAULT_NAMESPACE, Manifest, ManifestError, VM, VMI, full_name, kubevirt_defaults,
    unquoted_values,
};

/// The domains of annotations and labels that tools set in VMs themselves.
const TOOL_DOMAINS: [&str; 8] = [
    "kubernetes.io",
    "kubevirt.io",
    "vm.kubevirt.io",
    "instancetype.kubevirt.io",
    "template.kubevirt.io",
    "kubemacpool.io",
    "helm.sh",
    "meta.helm.sh",
];
const TOOL_DOMAIN_SUFFIXES: [&str; 2] = [".kubernetes.io", ".template.kubevirt.io"];
/// Maximum number of bytes of a key that a note shows.
const MAX_KEY: usize = 120;

/// The VMI that virt-controller makes of a VirtualMachine, without the cluster's defaults.
pub(super) fn vmi_from_template(vm: &Value) -> Result<Manifest, ManifestError> {
    let metadata = |field: &str| vm.get("metadata")?.get(field).cloned();
    let name = metadata("name").filter(|name| *name != "");
    let name = name.ok_or(ManifestError::Missing("metadata.name"))?;
    let template = vm.get("spec").and_then(|spec| spec.get("template"));
    if let Some(template) = template {
        unquoted_values::refuse(template, "spec.template.metadata")?;
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

/// Notes about annotations and labels of a VM itself.
pub(super) fn metadata_outside_template(vm: &Value) -> impl Iterator<Item = String> {
    ["annotations", "labels"]
        .into_iter()
        .filter_map(|field| outside_template(vm, field))
}

/// A note about annotations or labels of the VM itself, which its VMI does not get: they are perhaps meant for the VMI.
fn outside_template(vm: &Value, field: &str) -> Option<String> {
    let keys = |path: &str| vm.pointer(&format!("{path}/{field}"))?.as_object();
    let of_template = keys("/spec/template/metadata");
    let is_outside = |key: &&String| of_template.is_none_or(|known| !known.contains_key(*key));
    let outside = keys("/metadata")?.keys().filter(is_outside);
    let outside: Vec<_> = outside.filter(|key| !is_set_by_tools(key)).collect();
    let shown = outside
        .iter()
        .take(MAX_FIELDS)
        .map(|key| printable(key, MAX_KEY));
    let shown: Vec<String> = shown.collect();
    let omitted = match outside.len().saturating_sub(MAX_FIELDS) {
        0 => String::new(),
        omitted => format!(" and {omitted} more"),
    };
    (!shown.is_empty()).then(|| {
        format!(
            "metadata.{field} of the VirtualMachine are not those of its VMI, and hooks do not see them: {}{omitted}; those for hooks \
             belong into spec.template.metadata.{field}",
            shown.join(", ")
        )
    })
}

/// Whether an annotation or label is one that tools set in VMs themselves: kubectl, KubeVirt, Helm.
fn is_set_by_tools(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    // Hooks have annotations below kubevirt.io, such as smbios.vm.kubevirt.io, so subdomains do not count in general.
    TOOL_DOMAINS.contains(&domain)
        || TOOL_DOMAIN_SUFFIXES
            .iter()
            .any(|suffix| domain.ends_with(suffix))
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
