//! Manifests: the VMIs of a file that holds a VirtualMachineInstance, a VirtualMachine or a list of them.

mod known_fields;
mod kubevirt_defaults;
mod unquoted_values;
mod virtual_machine;

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

/// An object of a file.
#[derive(Debug)]
pub(crate) struct ManifestEntry {
    /// `NAMESPACE/NAME`, if it has a name.
    pub(crate) name: Option<String>,
    pub(crate) manifest: Result<Manifest, ManifestError>,
}

/// A VMI of a manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) vmi: Vmi,
    /// It is of a VirtualMachine's template.
    pub(crate) is_of_template: bool,
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
    /// An annotation or a label that YAML reads as a number or another type.
    #[error("{path} is {value}, which YAML does not read as text: put it in quotes")]
    Unquoted { path: String, value: String },
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
            Self::Unquoted { .. } => true,
            Self::Item { error, .. } => error.is_refusal(),
            _ => false,
        }
    }

    /// The error itself, for an item of a list.
    pub(crate) fn innermost(&self) -> &Self {
        match self {
            Self::Item { error, .. } => error.innermost(),
            other => other,
        }
    }
}

/// Reads all VMIs of a manifest in JSON or YAML.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Manifest>, ManifestError> {
    let entries = read_entries(bytes)?.into_iter();
    entries.map(|entry| entry.manifest).collect()
}

/// As [`read`], with those items of a list that are no VMIs.
pub(crate) fn read_entries(bytes: &[u8]) -> Result<Vec<ManifestEntry>, ManifestError> {
    if let Some(format) = other_format(bytes) {
        return Err(ManifestError::OtherFormat(format));
    }
    let documents = strict_json_or_yaml::documents(bytes)?;
    match &documents[..] {
        [] => Err(ManifestError::Empty),
        [only] => entries(only, None, Some(bytes)),
        several => Ok(items(several, None)),
    }
}

/// Notes about fields of a VirtualMachineInstance or a VirtualMachine that KubeVirt's API does not have, and about annotations and
/// labels of a VirtualMachine that hooks do not see.
pub(crate) fn notes_about_fields(object: &Value) -> Vec<String> {
    match object.get("kind").and_then(Value::as_str) {
        Some(VM) => {
            let mut notes = unknown_fields(object, VM);
            notes.extend(virtual_machine::metadata_outside_template(object));
            notes
        }
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

/// What is in one object. `kind_of_items` is the kind of what has none in a list; `text` is the object's own text, if it is not
/// part of another.
fn entries(
    object: &Value,
    kind_of_items: Option<&str>,
    text: Option<&[u8]>,
) -> Result<Vec<ManifestEntry>, ManifestError> {
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
    let manifest = match kind {
        None if has_template => virtual_machine::convert(object)?,
        None | Some(VMI) => vmi(object, kind, text)?,
        Some(VM) => virtual_machine::convert(object)?,
        Some(list) if LISTS.contains(&list) => {
            let kind = list.strip_suffix("List").filter(|kind| !kind.is_empty());
            return match fields.get("items") {
                Some(Value::Array(found)) if !found.is_empty() => Ok(items(found, kind)),
                _ => Err(ManifestError::NoItems),
            };
        }
        Some(kind) => {
            return Err(ManifestError::Kind {
                kind: kind.to_owned(),
            });
        }
    };
    Ok(vec![ManifestEntry {
        name: full_name(object),
        manifest: Ok(manifest),
    }])
}

fn items(list: &[Value], kind: Option<&str>) -> Vec<ManifestEntry> {
    let mut found = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let of_item = |error| ManifestError::Item {
            number: index + 1,
            error: Box::new(error),
        };
        match entries(item, kind, None) {
            Ok(entries) => found.extend(entries.into_iter().map(|entry| ManifestEntry {
                manifest: entry.manifest.map_err(of_item),
                ..entry
            })),
            Err(error) => found.push(ManifestEntry {
                name: full_name(item),
                manifest: Err(of_item(error)),
            }),
        }
    }
    found
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

/// A VMI in a namespace, with KubeVirt's defaults unless it is one of a cluster, which has a status, or an extract that names no
/// kind. Its own JSON text is kept as it came, if nothing is added.
fn vmi(object: &Value, kind: Option<&str>, text: Option<&[u8]>) -> Result<Manifest, ManifestError> {
    unquoted_values::refuse(object, "metadata")?;
    let json = text.filter(|text| text.trim_ascii_start().starts_with(b"{"));
    let mut notes = unknown_fields(object, VMI);
    let mut complete = object.clone();
    if set_default_namespace(&mut complete) {
        notes.push(format!(
            "metadata.namespace is missing: it is {DEFAULT_NAMESPACE} here, as for kubectl"
        ));
    }
    let has_status =
        matches!(object.get("status"), Some(Value::Object(status)) if !status.is_empty());
    if let (Some(_), false, Value::Object(vmi)) = (kind, has_status, &mut complete)
        && vmi.get("spec").is_some_and(Value::is_object)
    {
        kubevirt_defaults::set_runtime_user(vmi);
    }
    if let (Some(_), false, Some(Value::Object(spec))) =
        (kind, has_status, complete.get_mut("spec"))
    {
        let name = full_name(object).unwrap_or_default();
        kubevirt_defaults::set_firmware(spec, &name, false);
        let defaults = kubevirt_defaults::set(spec, false);
        if !defaults.is_empty() {
            notes.push(format!(
                "this VMI is of no cluster, and gets KubeVirt's defaults: {}",
                defaults.join(", ")
            ));
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
    })
}

/// Sets the default namespace in a VMI that names none: in the cluster it always has one, and libvirt's name contains it.
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
