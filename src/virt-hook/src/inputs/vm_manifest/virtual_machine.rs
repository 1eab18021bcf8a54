//! The VMI of a VirtualMachine.

use hook_host::printable;
use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value, json};

use super::{
    DEFAULT_NAMESPACE, MAX_FIELDS, Manifest, ManifestError, VM, VMI, full_name, kubevirt_defaults,
    missing_memory, unknown_fields, unquoted_values,
};

/// The domains of annotations and labels that tools set in VMs themselves.
const TOOLS: [&str; 8] = [
    "kubernetes.io",
    "kubevirt.io",
    "vm.kubevirt.io",
    "instancetype.kubevirt.io",
    "template.kubevirt.io",
    "kubemacpool.io",
    "helm.sh",
    "meta.helm.sh",
];
const SUFFIXES_OF_TOOLS: [&str; 2] = [".kubernetes.io", ".template.kubevirt.io"];
/// The most bytes of a key that a note shows.
const MAX_KEY: usize = 120;

/// The VMI that virt-controller makes of a VirtualMachine, without the cluster's defaults.
pub(super) fn convert(machine: &Value) -> Result<Manifest, ManifestError> {
    let metadata = |field: &str| machine.get("metadata")?.get(field).cloned();
    let name = metadata("name").filter(|name| *name != "");
    let name = name.ok_or(ManifestError::Missing("metadata.name"))?;
    let template = machine.get("spec").and_then(|spec| spec.get("template"));
    if let Some(template) = template {
        unquoted_values::refuse(template, "spec.template.metadata")?;
    }
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
        Value::Object(spec) => {
            let full_name = full_name(machine).unwrap_or_default();
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
    notes.extend(not_applied(has("instancetype"), has("preference")));
    notes.extend(metadata_outside_template(machine));
    let mut object = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": VMI,
        "metadata": own,
        "spec": spec,
    });
    if let Value::Object(object) = &mut object {
        kubevirt_defaults::set_runtime_user(object);
    }
    let vmi = Vmi::from_json(object.to_string().as_bytes())?;
    notes.extend(unknown_fields(machine, VM));
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
pub(super) fn metadata_outside_template(machine: &Value) -> impl Iterator<Item = String> {
    ["annotations", "labels"]
        .into_iter()
        .filter_map(|field| outside_template(machine, field))
}

/// That annotations or labels of a VM itself, which its VMI does not get, are perhaps meant for the VMI.
fn outside_template(machine: &Value, field: &str) -> Option<String> {
    let keys = |path: &str| machine.pointer(&format!("{path}/{field}"))?.as_object();
    let of_template = keys("/spec/template/metadata");
    let is_outside = |key: &&String| of_template.is_none_or(|known| !known.contains_key(*key));
    let outside = keys("/metadata")?.keys().filter(is_outside);
    let outside: Vec<_> = outside.filter(|key| !is_of_tool(key)).collect();
    let shown = outside
        .iter()
        .take(MAX_FIELDS)
        .map(|key| printable(key, MAX_KEY));
    let shown: Vec<String> = shown.collect();
    let more = match outside.len().saturating_sub(MAX_FIELDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shown.is_empty()).then(|| {
        format!(
            "metadata.{field} of the VirtualMachine are not those of its VMI, and hooks do not see them: {}{more}; those for hooks \
             belong into spec.template.metadata.{field}",
            shown.join(", ")
        )
    })
}

/// Whether an annotation or label is one that tools set in VMs themselves: kubectl, KubeVirt, Helm.
fn is_of_tool(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    // Hooks have annotations below kubevirt.io, such as smbios.vm.kubevirt.io, so subdomains do not count in general.
    TOOLS.contains(&domain)
        || SUFFIXES_OF_TOOLS
            .iter()
            .any(|suffix| domain.ends_with(suffix))
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
