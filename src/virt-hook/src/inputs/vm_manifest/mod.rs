//! Manifests: the VMIs of a file that holds a VirtualMachineInstance, a VirtualMachine or a list of them.

mod known_fields;

use hook_host::printable;
use kubevirt_api::strict_json_or_yaml::{self, SyntaxError};
use kubevirt_api::vmi::{Vmi, VmiError};
use serde_json::{Map, Value};

const VMI: &str = "VirtualMachineInstance";
const VM: &str = "VirtualMachine";
/// What the API version of both begins with.
const GROUP: &str = "kubevirt.io/";
const LISTS: [&str; 3] = ["List", "VirtualMachineInstanceList", "VirtualMachineList"];
/// The namespace of what names none, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";
/// The most unknown fields of one VMI that are named.
const MAX_FIELDS: usize = 10;
/// The most bytes of a text that is not a manifest which an error shows.
const MAX_SHOWN: usize = 40;
/// How errors about a file without a VMI end.
const WANTED: &str = "give the manifest of a VirtualMachineInstance or a VirtualMachine, in YAML or \
    JSON, as kubectl get vmi NAME -o yaml prints it";

/// A VMI of a manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) vmi: Vmi,
    /// What the author should know: where the VMI comes from, and what looks like a mistake.
    pub(crate) notes: Vec<String>,
}

/// Why a file has no VMI.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("it is empty: {WANTED}")]
    Empty,
    /// No parser of YAML reads it.
    #[error("it is {0}: {WANTED}")]
    OtherFormat(&'static str),
    #[error("{0}: {WANTED}")]
    Syntax(#[from] SyntaxError),
    #[error("it holds {0} and nothing else: {WANTED}")]
    NotAnObject(String),
    #[error("this is a {kind}, neither a VirtualMachineInstance nor a VirtualMachine: {WANTED}")]
    Kind { kind: String },
    #[error("the VirtualMachine's field {0} is missing")]
    Missing(&'static str),
    #[error("the list has no items")]
    NoItems,
    /// The VMI is one, and is refused.
    #[error(transparent)]
    Vmi(#[from] VmiError),
    /// An item of a list.
    #[error("item {number}: {error}")]
    Item {
        /// Its position, from 1.
        number: usize,
        /// Why it is not a VMI.
        error: Box<ManifestError>,
    },
}

impl ManifestError {
    /// Whether there is a VMI, which is refused; otherwise the file cannot be used.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Vmi(error) => !matches!(error, VmiError::TooLarge { .. }),
            Self::Item { error, .. } => error.is_refusal(),
            _ => false,
        }
    }
}

/// Reads all VMIs of a manifest in JSON or YAML.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Manifest>, ManifestError> {
    if let Some(format) = other_format(bytes) {
        return Err(ManifestError::OtherFormat(format));
    }
    let documents = strict_json_or_yaml::documents(bytes)?;
    match &documents[..] {
        [] => Err(ManifestError::Empty),
        [only] => vmis(only, None, Some(bytes)),
        several => items(several, None),
    }
}

/// Notes about fields of a VirtualMachineInstance or a VirtualMachine that KubeVirt's API does not have.
pub(crate) fn notes_about_fields(object: &Value) -> Vec<String> {
    match object.get("kind").and_then(Value::as_str) {
        Some(VM) => unknown_fields(object, VM),
        _ => unknown_fields(object, VMI),
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
    // YAML's merge key begins with two.
    (start.starts_with(b"<") && !start.starts_with(b"<<")).then_some("XML")
}

/// The VMIs of one object. `kind_of_items` is the kind of what has none in a list; `text` is the object's own text, if it is not
/// part of another.
fn vmis(
    object: &Value,
    kind_of_items: Option<&str>,
    text: Option<&[u8]>,
) -> Result<Vec<Manifest>, ManifestError> {
    let Value::Object(fields) = object else {
        return Err(ManifestError::NotAnObject(description(object)));
    };
    if ["kind", "metadata", "spec"]
        .iter()
        .all(|name| !fields.contains_key(*name))
    {
        return Err(ManifestError::NotAnObject(description(object)));
    }
    let has_template = object.pointer("/spec/template").is_some();
    // The API server names no kind in the items of its lists.
    let kind = kind(fields).or(kind_of_items);
    if let (Some(kind @ (VMI | VM)), Some(other)) = (kind, other_group(fields)) {
        return Err(ManifestError::Kind {
            kind: format!("{kind} of {other}"),
        });
    }
    match kind {
        None if has_template => of_virtual_machine(object).map(|manifest| vec![manifest]),
        None | Some(VMI) => vmi(object, text).map(|manifest| vec![manifest]),
        Some(VM) => of_virtual_machine(object).map(|manifest| vec![manifest]),
        Some(list) if LISTS.contains(&list) => match fields.get("items") {
            Some(Value::Array(found)) if !found.is_empty() => items(
                found,
                list.strip_suffix("List").filter(|kind| !kind.is_empty()),
            ),
            _ => Err(ManifestError::NoItems),
        },
        Some(kind) => Err(ManifestError::Kind {
            kind: kind.to_owned(),
        }),
    }
}

fn items(list: &[Value], kind: Option<&str>) -> Result<Vec<Manifest>, ManifestError> {
    let mut found = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let number = index + 1;
        let vmis = vmis(item, kind, None).map_err(|error| ManifestError::Item {
            number,
            error: Box::new(error),
        });
        found.extend(vmis?);
    }
    Ok(found)
}

/// A VMI as it stands, in a namespace. Its own JSON text is kept as it came, if it names one.
fn vmi(object: &Value, text: Option<&[u8]>) -> Result<Manifest, ManifestError> {
    let json = text.filter(|text| text.trim_ascii_start().starts_with(b"{"));
    let namespaced = in_default_namespace(object);
    let vmi = match (json, &namespaced) {
        (Some(json), None) => Vmi::from_json(json)?,
        (_, namespaced) => {
            let object = namespaced.as_ref().unwrap_or(object);
            Vmi::from_json(object.to_string().as_bytes())?
        }
    };
    let mut notes = unknown_fields(object, VMI);
    notes.extend(namespaced.map(|_| {
        format!("metadata.namespace is missing: it is {DEFAULT_NAMESPACE} here, as for kubectl")
    }));
    notes.extend(missing_memory(&vmi));
    Ok(Manifest { vmi, notes })
}

/// The VMI in the default namespace, if it names none: in the cluster it always has one, and libvirt's name contains it.
fn in_default_namespace(object: &Value) -> Option<Value> {
    let namespace = object.get("metadata")?.as_object()?.get("namespace");
    let is_missing = namespace.is_none_or(|namespace| namespace.is_null() || namespace == "");
    let mut object = is_missing.then(|| object.clone())?;
    object["metadata"]["namespace"] = DEFAULT_NAMESPACE.into();
    Some(object)
}

/// The VMI that virt-controller makes of a VirtualMachine, without the cluster's defaults.
fn of_virtual_machine(machine: &Value) -> Result<Manifest, ManifestError> {
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
    let mut notes = vec![format!(
        "this is a VirtualMachine: its spec.template is used, without the cluster's defaults{}",
        match machine["spec"].get("instancetype") {
            Some(Value::Object(_)) => " and without its instance type",
            _ => "",
        }
    )];
    own.insert("name".to_owned(), name);
    own.insert("namespace".to_owned(), namespace);
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), "kubevirt.io/v1".into());
    object.insert("kind".to_owned(), VMI.into());
    object.insert("metadata".to_owned(), own.into());
    object.insert(
        "spec".to_owned(),
        template.get("spec").cloned().unwrap_or_default(),
    );
    let object = Value::Object(object);
    let vmi = Vmi::from_json(object.to_string().as_bytes())?;
    notes.extend(unknown_fields(machine, VM));
    notes.extend(missing_memory(&vmi));
    Ok(Manifest { vmi, notes })
}

fn kind(fields: &Map<String, Value>) -> Option<&str> {
    let kind = fields.get("kind")?.as_str()?;
    (!kind.is_empty()).then_some(kind)
}

/// The API version of an object that is not KubeVirt's.
fn other_group(fields: &Map<String, Value>) -> Option<&str> {
    let version = fields.get("apiVersion")?.as_str()?;
    (!version.is_empty() && !version.starts_with(GROUP)).then_some(version)
}

/// One note per unknown field: newer versions of KubeVirt have more fields, so none is an error.
fn unknown_fields(object: &Value, kind: &str) -> Vec<String> {
    let unknown = known_fields::unknown(object, kind);
    let more = unknown.len().saturating_sub(MAX_FIELDS);
    let shown = unknown.iter().take(MAX_FIELDS);
    let mut notes: Vec<String> = shown.map(known_fields::UnknownField::note).collect();
    if more > 0 {
        notes.push(format!("{more} more fields are unknown to KubeVirt 1.9"));
    }
    notes
}

fn missing_memory(vmi: &Vmi) -> Option<String> {
    let is_set = |field: &str| {
        let memory = vmi.value().pointer(&format!("/spec/domain/{field}"));
        memory.is_some_and(|memory| !memory.is_null())
    };
    let memory_fields = [
        "memory/guest",
        "resources/requests/memory",
        "resources/limits/memory",
    ];
    let no_memory = "the domain has no memory, and libvirt would refuse it";
    if !memory_fields.into_iter().any(is_set) {
        return Some(format!("spec.domain.memory.guest is missing: {no_memory}"));
    }
    let domain = &vmi.spec.domain;
    let guest = domain.memory.as_ref().and_then(|memory| memory.guest);
    let of_pod = || {
        let (requests, limits) = (&domain.resources.requests, &domain.resources.limits);
        let memory = requests.get("memory").or_else(|| limits.get("memory"));
        memory.copied()
    };
    let amount = guest.or_else(of_pod)?;
    (amount.memory_bytes() == Ok(0))
        .then(|| format!("the memory of the guest is less than a byte: {no_memory}"))
}

/// What is there instead of an object.
fn description(value: &Value) -> String {
    match value {
        Value::Null => "the value null".to_owned(),
        Value::Bool(value) => format!("the truth value {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text \"{}\"", printable(text, MAX_SHOWN)),
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
