//! Manifests: the VMIs of a file that holds a VirtualMachineInstance, a VirtualMachine or a list of them.

mod known_fields;
mod kubevirt_defaults;
mod manifest_error;
mod manifest_notes;
mod unquoted_annotations_and_labels;
mod vmi_of_virtual_machine;

use kubevirt_api::strict_json_or_yaml;
use kubevirt_api::vmi::Vmi;
use serde_json::{Map, Value};

pub(crate) use manifest_error::ManifestError;
use manifest_error::{describe, other_format};
pub(crate) use manifest_notes::notes_about_fields;
use manifest_notes::{missing_memory, unknown_fields};

const VMI: &str = "VirtualMachineInstance";
const VM: &str = "VirtualMachine";
/// The API group of both kinds, with the slash before the version.
const API_GROUP_PREFIX: &str = "kubevirt.io/";
const LIST_KINDS: [&str; 3] = ["List", "VirtualMachineInstanceList", "VirtualMachineList"];
/// The namespace of objects that name none, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// An object of a manifest file.
#[derive(Debug)]
pub(crate) struct ManifestEntry {
    /// `NAMESPACE/NAME`, if the object has a name.
    pub(crate) name: Option<String>,
    pub(crate) manifest: Result<Manifest, ManifestError>,
}

/// A VMI of a manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) vmi: Vmi,
    /// Whether the VMI comes from the template of a VirtualMachine.
    pub(crate) is_of_template: bool,
    /// Notes for the author: where the VMI comes from, and what looks like a mistake.
    pub(crate) notes: Vec<String>,
}

/// Reads all VMIs of a manifest in JSON or YAML.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Manifest>, ManifestError> {
    let entries = read_entries(bytes)?.into_iter();
    entries.map(|entry| entry.manifest).collect()
}

/// As [`read`], but items of a list that are not VMIs are kept with their errors.
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

/// The VMIs of an object. `kind_of_items` is the kind of items of a list that name none; `text` is the text of the
/// object, if it is not part of another.
fn entries(
    object: &Value,
    kind_of_items: Option<&str>,
    text: Option<&[u8]>,
) -> Result<Vec<ManifestEntry>, ManifestError> {
    let Value::Object(fields) = object else {
        return Err(ManifestError::NotAnObject(describe(object)));
    };
    if ["kind", "metadata", "spec"]
        .iter()
        .all(|name| !fields.contains_key(*name))
    {
        return Err(ManifestError::NotAnObject(describe(object)));
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
        None if has_template => vmi_of_virtual_machine::vmi_from_template(object)?,
        None | Some(VMI) => vmi(object, kind, text)?,
        Some(VM) => vmi_of_virtual_machine::vmi_from_template(object)?,
        Some(list) if LIST_KINDS.contains(&list) => {
            let kind = list.strip_suffix("List").filter(|kind| !kind.is_empty());
            return match fields.get("items") {
                Some(Value::Array(list)) if !list.is_empty() => Ok(items(list, kind)),
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
    let mut manifest_entries = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let item_error = |error| ManifestError::Item {
            number: index + 1,
            error: Box::new(error),
        };
        match entries(item, kind, None) {
            Ok(entries) => {
                manifest_entries.extend(entries.into_iter().map(|entry| ManifestEntry {
                    manifest: entry.manifest.map_err(item_error),
                    ..entry
                }))
            }
            Err(error) => manifest_entries.push(ManifestEntry {
                name: full_name(item),
                manifest: Err(item_error(error)),
            }),
        }
    }
    manifest_entries
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
fn vmi(object: &Value, kind: Option<&str>, text: Option<&[u8]>) -> Result<Manifest, ManifestError> {
    unquoted_annotations_and_labels::refuse(object, "metadata")?;
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
                "this VMI has no status, and gets KubeVirt's defaults: {}",
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

fn kind(fields: &Map<String, Value>) -> Option<&str> {
    let kind = fields.get("kind")?.as_str()?;
    (!kind.is_empty()).then_some(kind)
}

/// The API version of an object that is not KubeVirt's.
fn other_group(fields: &Map<String, Value>) -> Option<&str> {
    let version = fields.get("apiVersion")?.as_str()?;
    (!version.is_empty() && !version.starts_with(API_GROUP_PREFIX)).then_some(version)
}

#[cfg(test)]
mod tests;
