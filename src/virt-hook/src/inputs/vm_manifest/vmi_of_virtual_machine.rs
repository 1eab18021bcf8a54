//! Makes the VMI of a VirtualMachine from its template.

use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value, json};

use super::claims_beside_vm::Claims;
use super::instance_types::Expansion;
use super::manifest_notes::{metadata_outside_template, missing_memory, unknown_fields};
use super::{
    DEFAULT_NAMESPACE, Manifest, ManifestError, Note, Surroundings, VM, VMI,
    complete_generated_name, full_name, kubevirt_defaults, stored_form,
    unquoted_annotations_and_labels,
};

/// The VMI that virt-controller makes of a VirtualMachine, in a cluster with the default configuration.
pub(super) fn vmi_from_template(
    vm: &Value,
    surroundings: &Surroundings<'_>,
) -> Result<Manifest, ManifestError> {
    let mut vm = vm.clone();
    let generated_name = complete_generated_name(&mut vm);
    let vm = &vm;
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
    vmi_metadata.remove("generateName");
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
    vmi_metadata.insert("namespace".to_owned(), namespace.clone());
    vmi_metadata.insert("ownerReferences".to_owned(), json!([owner]));
    let namespace = namespace.as_str().unwrap_or(DEFAULT_NAMESPACE);
    let cluster = surroundings.cluster;
    let sources = [&surroundings.instance_types, &cluster.instance_types];
    let expansion = Expansion::of_vm(vm, namespace, sources)?;
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    let mut defaults = Vec::new();
    if let Value::Object(spec) = &mut spec {
        let name = full_name(vm).unwrap_or_default();
        defaults = set_spec(
            spec,
            &mut vmi_metadata,
            &name,
            &cluster.architecture,
            &expansion,
        )?;
    }
    let mut object = Map::from_iter([
        ("apiVersion".to_owned(), json!("kubevirt.io/v1")),
        ("kind".to_owned(), json!(VMI)),
        ("metadata".to_owned(), Value::Object(vmi_metadata)),
        ("spec".to_owned(), spec),
    ]);
    let claims_in_use = surroundings.claims.set_volume_status(
        &Claims::of_templates(vm),
        &mut object,
        cluster.binds_claims,
    );
    kubevirt_defaults::set_runtime_user(&mut object);
    let vmi = Vmi::from_json(Value::Object(object).to_string().as_bytes())?;
    let mut notes = expansion.notes;
    notes.extend(unknown_fields(vm, VM));
    if !expansion.has_instance_type {
        notes.extend(missing_memory(&vmi));
    }
    notes.extend(metadata_outside_template(vm));
    notes.extend(generated_name);
    notes.push(Note::origin(format!(
        "this is a VirtualMachine: its spec.template is used, {}",
        match &defaults[..] {
            [] => "with the defaults of a cluster".to_owned(),
            defaults => format!("with the defaults of a cluster ({})", defaults.join(", ")),
        }
    )));
    Ok(Manifest {
        vmi,
        is_of_template: true,
        notes,
        block_volumes: claims_in_use.block_volumes,
        used: [claims_in_use.used, expansion.used].concat(),
    })
}

/// Sets defaults, instance type and preference, in the order in which a cluster sets them. Returns the names of defaults
/// for people.
fn set_spec(
    spec: &mut Map<String, Value>,
    metadata: &mut Map<String, Value>,
    name: &str,
    architecture: &str,
    expansion: &Expansion,
) -> Result<Vec<&'static str>, ManifestError> {
    let mut stored = Value::Object(std::mem::take(spec));
    stored_form::store(&mut stored, "VirtualMachineInstanceSpec");
    if let Value::Object(stored) = stored {
        *spec = stored;
    }
    expansion.set_in_template(spec);
    kubevirt_defaults::set_in_template(spec, metadata, name, architecture);
    expansion.set_attached_devices(spec);
    let mut defaults = kubevirt_defaults::set_before_instance_type(spec);
    expansion.apply(spec, metadata)?;
    defaults.extend(kubevirt_defaults::set_in_vmi(
        spec,
        metadata,
        name,
        architecture,
    ));
    Ok(defaults)
}
