//! Manifests: the VMIs of a file as people keep it. A file holds VirtualMachineInstances, VirtualMachines, objects that
//! carry one (pools, replica sets, templates), lists of them, and other objects beside them.

mod instance_types;
mod known_fields;
mod kubevirt_defaults;
mod manifest_notes;
mod objects_beside_vm;
mod openshift_template;

use std::borrow::Cow;
use std::fmt;

use hook_host::printable;
use kubevirt_api::strict_json_or_yaml;
use kubevirt_api::strict_json_or_yaml::SyntaxError;
use kubevirt_api::vmi::{Vmi, VmiError};
use serde_json::{Map, Value, json};

use instance_types::Expansion;
pub(crate) use instance_types::InstanceTypes;
pub(crate) use manifest_notes::{Importance, Note, notes_about_fields};
use manifest_notes::{metadata_outside_template, missing_memory, unknown_fields};
use objects_beside_vm::{Claims, Presets};

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
    let objects = objects(&documents);
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
        None if has_template => vmi_from_template(value, surroundings),
        None | Some(VMI) => vmi(value, kind, text, surroundings),
        Some(VM) => vmi_from_template(value, surroundings),
        Some(POOL) => {
            let (vm, note) = objects_beside_vm::first_of_pool(value)?;
            let manifest = vmi_from_template(&vm, surroundings)?;
            Ok(manifest.with_origin(note))
        }
        Some(REPLICA_SET) => {
            let (instance, note) = objects_beside_vm::first_of_replica_set(value)?;
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
    refuse_unquoted(object, "metadata")?;
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
    let mut claims_in_use = objects_beside_vm::ClaimsInUse::default();
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
    known_fields::store(&mut spec, "VirtualMachineInstanceSpec");
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

const LIST_SUFFIX: &str = "List";

/// An object of a file.
#[derive(Debug)]
struct FileObject<'a> {
    value: Cow<'a, Value>,
    /// The kind of objects that name none, by their list.
    kind_of_list: Option<&'a str>,
    /// Where the object is; `None` for the only object of the file.
    place: Option<Place>,
    /// Notes about where the object comes from.
    notes: Vec<Note>,
}

/// Where an object is in its file. Positions begin with 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    document: Option<usize>,
    /// The position in a list, and those in the lists in it.
    items: Vec<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document = self.document.map(|number| format!("document {number}"));
        let items = self.items.iter().map(|number| format!("item {number}"));
        let parts: Vec<String> = document.into_iter().chain(items).collect();
        f.write_str(&parts.join(", "))
    }
}

impl FileObject<'_> {
    /// The kind that the object names, or that of its list: the API server names no kind in the items of its lists.
    fn kind(&self) -> Option<&str> {
        let named = self
            .value
            .get("kind")
            .and_then(Value::as_str)
            .filter(|kind| !kind.is_empty());
        named.or(self.kind_of_list)
    }
}

/// The objects of a file's documents, in their order.
fn objects(documents: &[Value]) -> Vec<FileObject<'_>> {
    let mut found = Vec::new();
    let has_several = documents.len() > 1;
    for (index, document) in documents.iter().enumerate() {
        let place = Place {
            document: has_several.then_some(index + 1),
            items: Vec::new(),
        };
        add(document, None, has_several.then_some(place), &mut found);
    }
    found
}

/// Adds an object, or the items of a list or template.
fn add<'a>(
    value: &'a Value,
    kind_of_list: Option<&'a str>,
    place: Option<Place>,
    found: &mut Vec<FileObject<'a>>,
) {
    let fields = value.as_object();
    if let Some(kind) = fields.and_then(list_kind) {
        let kind = kind.strip_suffix(LIST_SUFFIX);
        let kind = kind.filter(|kind| !kind.is_empty());
        let items = value.get("items").and_then(Value::as_array);
        for (index, item) in items.into_iter().flatten().enumerate() {
            add(item, kind, Some(item_place(place.as_ref(), index)), found);
        }
    } else if fields.is_some_and(openshift_template::is_template)
        && let Some((objects, note)) = openshift_template::process(value)
    {
        let items = objects.into_iter().enumerate();
        found.extend(items.map(|(index, item)| FileObject {
            value: Cow::Owned(item),
            kind_of_list: None,
            place: Some(item_place(place.as_ref(), index)),
            notes: vec![note.clone()],
        }));
    } else {
        found.push(FileObject {
            value: Cow::Borrowed(value),
            kind_of_list,
            place,
            notes: Vec::new(),
        });
    }
}

fn item_place(list: Option<&Place>, index: usize) -> Place {
    let mut items = list.map_or_else(Vec::new, |list| list.items.clone());
    items.push(index + 1);
    Place {
        document: list.and_then(|list| list.document),
        items,
    }
}

/// The kind of a list, such as `List` and `VirtualMachineList`.
fn list_kind(fields: &Map<String, Value>) -> Option<&str> {
    let kind = fields.get("kind")?.as_str()?;
    let is_list = fields.get("items").is_some_and(Value::is_array);
    (kind.ends_with(LIST_SUFFIX) && (is_list || kind == LIST_SUFFIX)).then_some(kind)
}

/// The VMI that virt-controller makes of a VirtualMachine, in a cluster with the default configuration.
fn vmi_from_template(
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
        refuse_unquoted(template, "spec.template.metadata")?;
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
    known_fields::store(&mut stored, "VirtualMachineInstanceSpec");
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

/// Maximum number of bytes of a key or value that an error shows.
const MAX_SHOWN: usize = 120;

/// Refuses the first value that is a number or a boolean. `metadata_path` is the path of the object's metadata for the
/// error.
fn refuse_unquoted(object: &Value, metadata_path: &str) -> Result<(), ManifestError> {
    for field in ["annotations", "labels"] {
        let values = object.pointer(&format!("/metadata/{field}"));
        for (key, value) in values.and_then(Value::as_object).into_iter().flatten() {
            if value.is_number() || value.is_boolean() {
                return Err(ManifestError::Unquoted {
                    path: format!("{metadata_path}.{field}: {}", printable(key, MAX_SHOWN)),
                    value: printable(&value.to_string(), MAX_SHOWN),
                });
            }
        }
    }
    Ok(())
}

/// Maximum number of bytes of a text that is not a manifest in an error.
const MAX_SHOWN_TEXT: usize = 40;
/// The end of errors about a file without a VMI.
const EXPECTED_MANIFEST: &str = "give the manifest of a VirtualMachineInstance or a VirtualMachine, in YAML or \
    JSON, as kubectl get vmi NAME -o yaml prints it";

/// An error about a file or object without a usable VMI.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("it is empty: {EXPECTED_MANIFEST}")]
    Empty,
    /// The file has a format that is neither YAML nor JSON.
    #[error("it is {0}: {EXPECTED_MANIFEST}")]
    OtherFormat(&'static str),
    #[error("{0}: {EXPECTED_MANIFEST}")]
    Syntax(#[from] SyntaxError),
    #[error("it holds {0} and nothing else: {EXPECTED_MANIFEST}")]
    NotAnObject(String),
    #[error(
        "this is a {kind}, neither a VirtualMachineInstance nor a VirtualMachine: {EXPECTED_MANIFEST}"
    )]
    Kind { kind: String },
    #[error("the VirtualMachine's field {0} is missing")]
    Missing(&'static str),
    #[error("the {kind}'s field {field} is missing")]
    MissingIn {
        kind: &'static str,
        field: &'static str,
    },
    /// A file that should have instance types or preferences has none.
    #[error("it has neither instance types nor preferences")]
    NoInstanceTypes,
    /// The VM does not fit to its instance type or preference.
    #[error("the VirtualMachine is refused: {0}")]
    InstanceType(String),
    /// The VM's instance type or preference is not known. An API server takes such a VM, but virt-controller makes no VMI of it.
    #[error(
        "a cluster without it makes no VMI of the VirtualMachine ({condition}): its {what} {reason}"
    )]
    NotFound {
        /// The reason of the VM's condition in a cluster.
        condition: &'static str,
        what: &'static str,
        reason: String,
    },
    #[error("the list has no items")]
    NoItems,
    /// An annotation or a label that YAML reads as a number or another type.
    #[error("{path} is {value}, which YAML does not read as text: put it in quotes")]
    Unquoted { path: String, value: String },
    /// The object is a VMI that is refused.
    #[error(transparent)]
    Vmi(#[from] VmiError),
    /// An object among others.
    #[error("{place}: {error}")]
    At {
        place: Place,
        /// The error about the object.
        error: Box<ManifestError>,
    },
}

impl ManifestError {
    /// Whether there is a VMI that is refused. Otherwise the file cannot be used.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Vmi(error) => !matches!(error, VmiError::TooLarge { .. }),
            Self::Unquoted { .. } | Self::InstanceType(_) | Self::NotFound { .. } => true,
            Self::At { error, .. } => error.is_refusal(),
            _ => false,
        }
    }

    /// The error itself, for an object among others.
    pub(crate) fn innermost(&self) -> &Self {
        match self {
            Self::At { error, .. } => error.innermost(),
            other => other,
        }
    }

    /// Whether the object is of a kind that carries no VM.
    fn is_about_another_kind(&self) -> bool {
        matches!(self, Self::Kind { .. })
    }

    fn missing_in(kind: &'static str, field: &'static str) -> Self {
        Self::MissingIn { kind, field }
    }

    /// The error with the place of the object.
    fn at(self, place: Place) -> Self {
        Self::At {
            place,
            error: self.into(),
        }
    }
}

/// The format of bytes that are mistaken for a manifest; `None` if they may be YAML or JSON.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    let start = bytes.trim_ascii_start();
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Some("text in UTF-16, and only UTF-8 is read");
    }
    if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() {
        return Some("binary data");
    }
    // YAML's merge key is `<<`.
    (start.starts_with(b"<") && !start.starts_with(b"<<")).then_some("XML")
}

/// Describes a value that is not a Kubernetes object.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "the value null".to_owned(),
        Value::Bool(value) => format!("the truth value {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text \"{}\"", printable(text, MAX_SHOWN_TEXT)),
        Value::Array(list) => match list.len() {
            0 => "an empty list".to_owned(),
            1 => "a list of one value".to_owned(),
            count => format!("a list of {count} values"),
        },
        Value::Object(_) => "an object without kind, metadata and spec".to_owned(),
    }
}

#[cfg(test)]
mod tests;
