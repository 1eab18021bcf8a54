//! Manifests: the VMIs of a file as people keep it. A file holds VirtualMachineInstances, VirtualMachines, objects that
//! carry one (pools, replica sets, templates), lists of them, and other objects beside them.

mod claims_beside_vm;
mod instance_types;
mod known_fields;
mod kubevirt_defaults;
mod manifest_error;
mod manifest_notes;
mod objects_of_file;
mod openshift_template;
mod presets_beside_vm;
mod stored_form;
mod unquoted_annotations_and_labels;
mod vmi_of_virtual_machine;
mod vms_of_owners;

use kubevirt_api::strict_json_or_yaml;
use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value};

use claims_beside_vm::Claims;
pub(crate) use instance_types::InstanceTypes;
pub(crate) use manifest_error::ManifestError;
use manifest_error::{describe, other_format};
pub(crate) use manifest_notes::{Importance, Note, notes_about_fields};
use manifest_notes::{missing_memory, unknown_fields};
use objects_of_file::{FileObject, Place};
use presets_beside_vm::Presets;

const VMI: &str = "VirtualMachineInstance";
const VM: &str = "VirtualMachine";
const POOL: &str = "VirtualMachinePool";
const REPLICA_SET: &str = "VirtualMachineInstanceReplicaSet";
/// The API groups of these kinds, with the slash before the version.
const API_GROUP_PREFIXES: [&str; 2] = ["kubevirt.io/", "pool.kubevirt.io/"];
/// The namespace of objects that name none, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";
/// What stands for the characters with which a cluster completes `generateName`.
const GENERATED_SUFFIX: &str = "xxxxx";
/// Maximum number of objects that a note names.
const MAX_OBJECTS: usize = 10;

/// The cluster in which a manifest's VMIs would be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    /// The architecture of VMs that name none, as Go names it.
    pub(crate) architecture: String,
    pub(crate) instance_types: InstanceTypes,
    /// Whether the claims beside a VM are bound, so that the VMI's status has their modes and sizes.
    pub(crate) binds_claims: bool,
}

/// An object of a manifest file.
#[derive(Debug)]
pub(crate) struct ManifestEntry {
    /// `NAMESPACE/NAME`, if the object has a name.
    pub(crate) name: Option<String>,
    pub(crate) manifest: Result<Manifest, ManifestError>,
    /// The kind, the name and the place of the object.
    title: String,
}

/// A VMI of a manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) vmi: Vmi,
    /// Whether the VMI comes from the template of a VirtualMachine.
    pub(crate) is_of_template: bool,
    /// Notes for the author: where the VMI comes from, and what looks like a mistake.
    pub(crate) notes: Vec<Note>,
    /// The volumes whose claims are block devices, by objects of the file. The VMI's status says so, too, if the cluster
    /// binds claims.
    pub(crate) block_volumes: Vec<String>,
    /// The kinds and names of the objects of the file that were used beside the VM.
    used: Vec<String>,
}

/// The VMIs of a file.
#[derive(Debug)]
pub(crate) struct Manifests {
    pub(crate) all: Vec<Manifest>,
    /// A note about the other objects of the file.
    pub(crate) left_out: Option<Note>,
}

/// Reads all VMIs of a manifest in JSON or YAML. Other objects beside them are left out, with a note.
pub(crate) fn read(bytes: &[u8], cluster: &Cluster) -> Result<Manifests, ManifestError> {
    let mut all = Vec::new();
    let mut others = Vec::new();
    for entry in read_entries(bytes, cluster)? {
        match entry.manifest {
            Ok(manifest) => all.push(manifest),
            Err(error) if error.innermost().is_about_another_kind() => {
                others.push((entry.title, error));
            }
            Err(error) => return Err(error),
        }
    }
    if all.is_empty() && !others.is_empty() {
        return Err(others.swap_remove(0).1);
    }
    let titles = others.into_iter().map(|(title, _)| title);
    let is_used = |title: &String| all.iter().any(|manifest| manifest.uses(title));
    let (used, left_out) = titles.partition(is_used);
    Ok(Manifests {
        left_out: left_out_note(left_out, used),
        all,
    })
}

impl Manifest {
    /// Whether the object with this title was used for the VMI.
    fn uses(&self, title: &str) -> bool {
        let has_name = |used: &String| {
            let rest = title.strip_prefix(used.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
        };
        self.used.iter().any(has_name)
    }
}

fn left_out_note(left_out: Vec<String>, used: Vec<String>) -> Option<Note> {
    let list = |titles: &[String]| {
        let shown: Vec<&str> = titles
            .iter()
            .take(MAX_OBJECTS)
            .map(String::as_str)
            .collect();
        match titles.len().saturating_sub(MAX_OBJECTS) {
            0 => match &shown[..] {
                [others @ .., last] if !others.is_empty() => {
                    format!("{} and {last}", others.join(", "))
                }
                _ => shown.concat(),
            },
            more => format!("{} and {more} more", shown.join(", ")),
        }
    };
    let left_out_text = match &left_out[..] {
        [] => None,
        [only] => Some(format!("{only} is not a VM and is left out")),
        several => Some(format!("{} are not VMs and are left out", list(several))),
    };
    let used_text = match &used[..] {
        [] => None,
        [only] => Some(format!("{only} is used for the VM")),
        several => Some(format!("{} are used for the VM", list(several))),
    };
    let texts: Vec<String> = left_out_text.into_iter().chain(used_text).collect();
    (!texts.is_empty()).then(|| Note::origin(texts.join("; ")))
}

/// As [`read`], but objects that are not VMIs are kept with their errors.
pub(crate) fn read_entries(
    bytes: &[u8],
    cluster: &Cluster,
) -> Result<Vec<ManifestEntry>, ManifestError> {
    if let Some(format) = other_format(bytes) {
        return Err(ManifestError::OtherFormat(format));
    }
    let documents = strict_json_or_yaml::documents(bytes)?;
    let objects = objects_of_file::objects(&documents);
    let surroundings = Surroundings {
        cluster,
        claims: Claims::of_objects(&objects),
        instance_types: InstanceTypes::of_objects(&objects),
        presets: Presets::of_objects(&objects),
    };
    match &objects[..] {
        [] if documents.is_empty() => Err(ManifestError::Empty),
        [] => Err(ManifestError::NoItems),
        [only] if only.place.is_none() => {
            let ManifestEntry {
                name,
                manifest,
                title,
            } = entry(only, Some(bytes), &surroundings);
            let manifest = Ok(manifest?);
            Ok(vec![ManifestEntry {
                name,
                manifest,
                title,
            }])
        }
        several => Ok(several
            .iter()
            .map(|object| entry(object, None, &surroundings))
            .collect()),
    }
}

/// The VMI of an object. `text` is the text of the object, if it is the only one of the file.
fn entry(
    object: &FileObject<'_>,
    text: Option<&[u8]>,
    surroundings: &Surroundings<'_>,
) -> ManifestEntry {
    let manifest = manifest(object, text, surroundings).map_err(|error| match &object.place {
        Some(place) => error.at(place.clone()),
        None => error,
    });
    let manifest = manifest.map(|mut manifest| {
        manifest.notes.extend(object.notes.iter().cloned());
        let of_presets = surroundings.presets.notes(&manifest.vmi);
        manifest.notes.extend(of_presets);
        manifest
    });
    ManifestEntry {
        name: full_name(&object.value),
        title: title(object),
        manifest,
    }
}

/// Such as `Secret web-seed (document 1)`.
fn title(object: &FileObject<'_>) -> String {
    let kind = object.kind().unwrap_or("object");
    let name = object
        .value
        .pointer("/metadata/name")
        .and_then(Value::as_str);
    let name = name.map_or(String::new(), |name| format!(" {name}"));
    let place = object.place.as_ref().map(Place::to_string);
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    format!("{kind}{name}{place}")
}

fn manifest(
    object: &FileObject<'_>,
    text: Option<&[u8]>,
    surroundings: &Surroundings<'_>,
) -> Result<Manifest, ManifestError> {
    let value = &*object.value;
    let Value::Object(fields) = value else {
        return Err(ManifestError::NotAnObject(describe(value)));
    };
    if ["kind", "metadata", "spec"]
        .iter()
        .all(|name| !fields.contains_key(*name))
    {
        return Err(ManifestError::NotAnObject(describe(value)));
    }
    let has_template = value.pointer("/spec/template").is_some();
    let kind = object.kind();
    if let (Some(kind @ (VMI | VM | POOL | REPLICA_SET)), Some(other)) = (kind, other_group(fields))
    {
        return Err(ManifestError::Kind {
            kind: format!("{kind} of {other}"),
        });
    }
    match kind {
        None if has_template => vmi_of_virtual_machine::vmi_from_template(value, surroundings),
        None | Some(VMI) => vmi(value, kind, text, surroundings),
        Some(VM) => vmi_of_virtual_machine::vmi_from_template(value, surroundings),
        Some(POOL) => {
            let (vm, note) = vms_of_owners::first_of_pool(value)?;
            let manifest = vmi_of_virtual_machine::vmi_from_template(&vm, surroundings)?;
            Ok(manifest.with_origin(note))
        }
        Some(REPLICA_SET) => {
            let (instance, note) = vms_of_owners::first_of_replica_set(value)?;
            let manifest = vmi(&instance, Some(VMI), None, surroundings)?;
            Ok(manifest.with_origin(note))
        }
        Some(kind) => Err(ManifestError::Kind {
            kind: kind.to_owned(),
        }),
    }
}

/// What is around a VM: the cluster, and the other objects of its file.
struct Surroundings<'a> {
    cluster: &'a Cluster,
    claims: Claims,
    instance_types: InstanceTypes,
    presets: Presets,
}

impl Manifest {
    /// The same, of an object that carries the VM.
    fn with_origin(mut self, note: Note) -> Self {
        self.is_of_template = true;
        self.notes.push(note);
        self
    }
}

/// `NAMESPACE/NAME` of any object.
fn full_name(object: &Value) -> Option<String> {
    let metadata = object.get("metadata")?;
    let text = |field: &str| {
        metadata
            .get(field)?
            .as_str()
            .filter(|text| !text.is_empty())
    };
    let name = text("name")?;
    Some(format!(
        "{}/{name}",
        text("namespace").unwrap_or(DEFAULT_NAMESPACE)
    ))
}

/// Reads a VMI and sets the default namespace in it. KubeVirt's defaults are set too, unless the VMI comes from a
/// cluster, so that it has a status, or is an extract without a kind. A JSON text to which nothing is added is passed
/// on unchanged.
fn vmi(
    object: &Value,
    kind: Option<&str>,
    text: Option<&[u8]>,
    surroundings: &Surroundings<'_>,
) -> Result<Manifest, ManifestError> {
    unquoted_annotations_and_labels::refuse(object, "metadata")?;
    let json = text.filter(|text| text.trim_ascii_start().starts_with(b"{"));
    let mut notes = unknown_fields(object, VMI);
    let mut complete = object.clone();
    if set_default_namespace(&mut complete) {
        notes.push(Note::origin(format!(
            "metadata.namespace is missing: it is {DEFAULT_NAMESPACE} here, as for kubectl"
        )));
    }
    notes.extend(complete_generated_name(&mut complete));
    let has_status =
        matches!(object.get("status"), Some(Value::Object(status)) if !status.is_empty());
    let mut claims_in_use = claims_beside_vm::ClaimsInUse::default();
    if kind.is_some()
        && !has_status
        && let Value::Object(vmi) = &mut complete
        && vmi.get("spec").is_some_and(Value::is_object)
    {
        let name = full_name(&Value::Object(vmi.clone())).unwrap_or_default();
        let defaults = set_defaults_of_vmi(vmi, &name, &surroundings.cluster.architecture);
        claims_in_use = surroundings.claims.set_volume_status(
            &Claims::default(),
            vmi,
            surroundings.cluster.binds_claims,
        );
        kubevirt_defaults::set_runtime_user(vmi);
        if !defaults.is_empty() {
            notes.push(Note::origin(format!(
                "this VMI has no status, and gets KubeVirt's defaults: {}",
                defaults.join(", ")
            )));
        }
    }
    let vmi = match json {
        Some(json) if complete == *object => Vmi::from_json(json)?,
        _ => Vmi::from_json(complete.to_string().as_bytes())?,
    };
    notes.extend(missing_memory(&vmi));
    Ok(Manifest {
        vmi,
        is_of_template: false,
        notes,
        block_volumes: claims_in_use.block_volumes,
        used: claims_in_use.used,
    })
}

/// Sets the defaults of a new VMI, and returns their names for people.
fn set_defaults_of_vmi(
    vmi: &mut Map<String, Value>,
    name: &str,
    architecture: &str,
) -> Vec<&'static str> {
    let mut spec = vmi.remove("spec").unwrap_or_default();
    stored_form::store(&mut spec, "VirtualMachineInstanceSpec");
    let defaults = match (
        &mut spec,
        vmi.get_mut("metadata").and_then(Value::as_object_mut),
    ) {
        (Value::Object(spec), Some(metadata)) => {
            kubevirt_defaults::set_in_vmi(spec, metadata, name, architecture)
        }
        _ => Vec::new(),
    };
    vmi.insert("spec".to_owned(), spec);
    defaults
}

/// Sets the default namespace in a VMI that names none: in the cluster it always has one, and libvirt's name contains
/// it.
fn set_default_namespace(object: &mut Value) -> bool {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return false;
    };
    let namespace = metadata.get("namespace");
    let is_missing = namespace.is_none_or(|namespace| namespace.is_null() || namespace == "");
    if is_missing {
        metadata.insert("namespace".to_owned(), DEFAULT_NAMESPACE.into());
    }
    is_missing
}

/// Completes `metadata.generateName` of an object without a name as a cluster does, but with the same characters in every
/// run.
fn complete_generated_name(object: &mut Value) -> Option<Note> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let has_name = matches!(metadata.get("name"), Some(Value::String(name)) if !name.is_empty());
    let prefix = metadata.get("generateName")?.as_str()?;
    if has_name || prefix.is_empty() {
        return None;
    }
    let name = format!("{prefix}{GENERATED_SUFFIX}");
    let note = Note::origin(format!(
        "the cluster completes metadata.generateName {prefix} with random characters: the name is {name} here"
    ));
    metadata.insert("name".to_owned(), name.into());
    Some(note)
}

/// The API version of an object that is not KubeVirt's.
fn other_group(fields: &Map<String, Value>) -> Option<&str> {
    let version = fields.get("apiVersion")?.as_str()?;
    let is_of_kubevirt = API_GROUP_PREFIXES
        .iter()
        .any(|prefix| version.starts_with(prefix));
    (!version.is_empty() && !is_of_kubevirt).then_some(version)
}

#[cfg(test)]
mod tests;
