//! The first VM of a VirtualMachinePool, and the first VMI of a VirtualMachineInstanceReplicaSet.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{GENERATED_SUFFIX, ManifestError, Note, POOL, REPLICA_SET, VM, VMI};

/// The VirtualMachine that a pool names its first, with the number 0, and a note about it.
pub(super) fn first_of_pool(pool: &Value) -> Result<(Value, Note), ManifestError> {
    let owner = Owner::of(pool)?;
    let template = pool.pointer("/spec/virtualMachineTemplate");
    let template = template.and_then(Value::as_object);
    let template =
        template.ok_or_else(|| ManifestError::missing_in(POOL, "spec.virtualMachineTemplate"))?;
    let spec = template.get("spec").cloned().unwrap_or_default();
    let vm = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": VM,
        "metadata": owner.metadata(template, format!("{}-0", owner.name)),
        "spec": with_numbered_data_volumes(spec),
    });
    Ok((vm, owner.note(POOL, "VMs")))
}

/// A VirtualMachineInstance of a replica set, whose name a cluster would complete with random characters.
pub(super) fn first_of_replica_set(replica_set: &Value) -> Result<(Value, Note), ManifestError> {
    let owner = Owner::of(replica_set)?;
    let template = replica_set.pointer("/spec/template");
    let template = template.and_then(Value::as_object);
    let template =
        template.ok_or_else(|| ManifestError::missing_in(REPLICA_SET, "spec.template"))?;
    let of_template = |field: &str| {
        let text = template.get("metadata")?.get(field)?.as_str()?;
        (!text.is_empty()).then_some(text)
    };
    let base = of_template("name").or_else(|| of_template("generateName"));
    let name = format!("{}{GENERATED_SUFFIX}", base.unwrap_or(owner.name));
    let vmi = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": VMI,
        "metadata": owner.metadata(template, name),
        "spec": template.get("spec"),
    });
    Ok((vmi, owner.note(REPLICA_SET, "VMIs")))
}

/// What VMs take from the object that owns them.
struct Owner<'a> {
    name: &'a str,
    namespace: Option<&'a Value>,
    replicas: u64,
}

impl<'a> Owner<'a> {
    fn of(object: &'a Value) -> Result<Self, ManifestError> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64);
        Ok(Self {
            name: name
                .filter(|name| !name.is_empty())
                .ok_or(ManifestError::Missing("metadata.name"))?,
            namespace: object.pointer("/metadata/namespace"),
            replicas: replicas.unwrap_or(1),
        })
    }

    /// The metadata of the template with the name of a VM.
    fn metadata(&self, template: &Map<String, Value>, name: String) -> Map<String, Value> {
        let of_template = template.get("metadata").and_then(Value::as_object);
        let mut metadata = of_template.cloned().unwrap_or_default();
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), name.into());
        if let Some(namespace) = self.namespace {
            metadata.insert("namespace".to_owned(), namespace.clone());
        }
        metadata
    }

    fn note(&self, kind: &str, what: &str) -> Note {
        let Self { name, replicas, .. } = self;
        Note::origin(match replicas {
            1 => format!("it is the only one of the {what} of {kind} {name}"),
            _ => format!("it is one of the {replicas} {what} of {kind} {name}"),
        })
    }
}

/// A pool gives each VM DataVolumes of its own: the names of their templates, and the volumes that refer to them, get the
/// VM's number.
fn with_numbered_data_volumes(mut spec: Value) -> Value {
    let mut new_names: HashMap<String, String> = HashMap::new();
    let templates = spec
        .get_mut("dataVolumeTemplates")
        .and_then(Value::as_array_mut);
    for template in templates.into_iter().flatten() {
        if let Some(Value::String(name)) = template.pointer_mut("/metadata/name") {
            let numbered = format!("{name}-0");
            new_names.insert(std::mem::replace(name, numbered.clone()), numbered);
        }
    }
    let volumes = spec
        .pointer_mut("/template/spec/volumes")
        .and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        for path in ["/dataVolume/name", "/persistentVolumeClaim/claimName"] {
            if let Some(Value::String(name)) = volume.pointer_mut(path)
                && let Some(numbered) = new_names.get(name)
            {
                name.clone_from(numbered);
            }
        }
    }
    spec
}
