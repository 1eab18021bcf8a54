//! The annotations with which a VM asks for a hook, added to a VM's manifest.

use std::path::Path;

use anyhow::anyhow;
use kubevirt_api::strict_json_or_yaml;
use serde_json::{Map, Value, json};

use crate::inputs::{input_file, notes_about_fields};
use crate::output;
use crate::verb_failure::Failure;

/// KubeVirt's annotation of hook sidecars.
pub(super) const SIDECARS: &str = "hooks.kubevirt.io/hookSidecars";
/// Fields that the API server writes into an object's metadata.
const SERVER_FIELDS: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// The annotation in which `kubectl apply` keeps the manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum size of a VM's manifest in bytes; etcd's own limit is lower.
const MAX_MANIFEST: usize = 4 << 20;

/// An annotation, and how it is merged with an existing one.
#[derive(Debug)]
pub(super) struct Annotation {
    pub(super) name: String,
    pub(super) value: AnnotationValue,
}

#[derive(Debug)]
pub(super) enum AnnotationValue {
    /// A value of which a VM has only one.
    Single(String),
    /// A name in a comma-separated list.
    Name(String),
    /// An item of a JSON list.
    Item(Value),
}

impl Annotation {
    /// The value on a VM that has this annotation with the value `old`, or does not have it.
    fn merged_with(&self, old: Option<&str>) -> Result<String, String> {
        let name = &self.name;
        match (&self.value, old) {
            (AnnotationValue::Single(value), Some(old)) if old != value => Err(format!(
                "it has {name}: {old}, and a VM's modules come from one image: put all of them into one"
            )),
            (AnnotationValue::Single(value) | AnnotationValue::Name(value), None) => {
                Ok(value.clone())
            }
            (AnnotationValue::Single(value), Some(_)) => Ok(value.clone()),
            (AnnotationValue::Name(value), Some(old)) => {
                let is_listed = old.split(',').any(|name| name.trim() == value);
                Ok(if is_listed {
                    old.to_owned()
                } else {
                    format!("{old},{value}")
                })
            }
            (AnnotationValue::Item(item), None) => Ok(json!([item]).to_string()),
            (AnnotationValue::Item(item), Some(old)) => {
                let mut items: Vec<Value> = serde_json::from_str(old)
                    .map_err(|error| format!("its {name} is not a JSON list: {error}"))?;
                // Replaces the entry of the same module, perhaps of another version.
                items.retain(|other| other["configMap"]["name"] != item["configMap"]["name"]);
                items.push(item.clone());
                Ok(Value::from(items).to_string())
            }
        }
    }
}

/// The annotations of a VM that has none yet.
pub(super) fn without_vm(annotations: &[Annotation]) -> Result<Map<String, Value>, Failure> {
    let mut merged = Map::new();
    add(annotations, &mut merged).map_err(|reason| Failure::usage(anyhow!(reason)))?;
    Ok(merged)
}

/// The VM of a file with the annotations added; those of a VirtualMachine are added to its template.
pub(super) fn on_vm(
    path: &Path,
    annotations: &[Annotation],
    namespace: &str,
) -> Result<Value, Failure> {
    let bytes = input_file::read(path, MAX_MANIFEST)?;
    let failure = |reason: String| Failure::usage(anyhow!("{}: {reason}", input_file::name(path)));
    let documents =
        strict_json_or_yaml::documents(&bytes).map_err(|error| failure(error.to_string()))?;
    let [vm] = &documents[..] else {
        let count = documents.len();
        return Err(failure(format!(
            "--vm is the manifest of one VM, and the file has {count} documents"
        )));
    };
    let notes = notes_about_fields(vm);
    let mut vm = vm.clone();
    remove_server_fields(&mut vm);
    let metadata = pod_metadata(&mut vm).map_err(failure)?;
    for note in notes {
        output::warn(&format!("{}: {note}", input_file::name(path)));
    }
    add(
        annotations,
        members(metadata, "annotations").map_err(failure)?,
    )
    .map_err(failure)?;
    match vm["metadata"]["namespace"].as_str() {
        Some(of_vm) if of_vm != namespace => Err(failure(format!(
            "the VM is in the namespace {of_vm}, and the other objects would be in {namespace}: add --namespace {of_vm}"
        ))),
        Some(_) => Ok(vm),
        None => {
            vm["metadata"]["namespace"] = namespace.into();
            Ok(vm)
        }
    }
}

/// The number of hook sidecars of a VM that [`on_vm`] returned.
pub(super) fn sidecar_count(vm: &Value) -> usize {
    let owner = match vm["kind"].as_str() {
        Some("VirtualMachine") => &vm["spec"]["template"],
        _ => vm,
    };
    let items = owner["metadata"]["annotations"][SIDECARS].as_str();
    let items = items.and_then(|items| serde_json::from_str::<Vec<Value>>(items).ok());
    items.map_or(0, |items| items.len())
}

/// Removes the fields that the API server has written, so that the output of `kubectl get -o yaml` becomes a manifest.
/// With a resourceVersion, the API server would refuse the manifest as soon as KubeVirt has updated the VM's status,
/// and would afterwards refuse `kubectl apply` of the owner's file.
fn remove_server_fields(vm: &mut Value) {
    if let Some(object) = vm.as_object_mut() {
        object.retain(|key, _| key != "status");
    }
    let Some(metadata) = vm.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.retain(|key, _| !SERVER_FIELDS.contains(&key.as_str()));
    let annotations = metadata.get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.retain(|key, _| key != LAST_APPLIED);
    }
}

fn add(annotations: &[Annotation], all: &mut Map<String, Value>) -> Result<(), String> {
    for annotation in annotations {
        let old = match all.get(&annotation.name) {
            None => None,
            Some(Value::String(old)) => Some(old.as_str()),
            Some(_) => return Err(format!("its annotation {} is not text", annotation.name)),
        };
        let value = annotation.merged_with(old)?;
        all.insert(annotation.name.clone(), value.into());
    }
    Ok(())
}

/// The metadata that KubeVirt copies to the pod.
fn pod_metadata(vm: &mut Value) -> Result<&mut Map<String, Value>, String> {
    let kind = vm["kind"]
        .as_str()
        .unwrap_or("object without a kind")
        .to_owned();
    let object = vm
        .as_object_mut()
        .ok_or_else(|| "it has no object".to_owned())?;
    if let Some(items) = object.get("items").and_then(Value::as_array) {
        return Err(format!(
            "this is a {kind} of {}: --vm is the manifest of one VM, as `kubectl get vm NAME -o yaml` prints it",
            items.len()
        ));
    }
    if !object.get("metadata").is_some_and(Value::is_object) {
        return Err("its metadata is missing".to_owned());
    }
    match kind.as_str() {
        "VirtualMachineInstance" => members(object, "metadata"),
        "VirtualMachine" => {
            let spec = object.get_mut("spec").and_then(Value::as_object_mut);
            let template = spec.and_then(|spec| spec.get_mut("template"));
            let template = template.and_then(Value::as_object_mut);
            members(
                template.ok_or_else(|| {
                    "the VirtualMachine's field spec.template is missing".to_owned()
                })?,
                "metadata",
            )
        }
        kind => Err(format!(
            "this is a {kind}: --vm is the manifest of a VirtualMachine or a VirtualMachineInstance"
        )),
    }
}

/// The members of the object `name` in an object, which is created if it is missing.
fn members<'a>(
    object: &'a mut Map<String, Value>,
    name: &str,
) -> Result<&'a mut Map<String, Value>, String> {
    let member = object.entry(name).or_insert(Value::Null);
    if member.is_null() {
        *member = json!({});
    }
    member
        .as_object_mut()
        .ok_or_else(|| format!("its {name} is not an object"))
}
