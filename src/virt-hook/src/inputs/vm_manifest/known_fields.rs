//! The fields of a VMI and of a VirtualMachine that KubeVirt's API has.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::inputs::similar_name::similar;

/// The table of types; its head describes the format.
const TABLE: &str = include_str!("vmi_fields.txt");

/// The fields of a type, and the type of those that have fields of their own.
type Fields = HashMap<&'static str, Option<&'static str>>;

static TYPES: LazyLock<HashMap<&'static str, Fields>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let types = lines.filter_map(|line| line.split_once(' '));
    types
        .map(|(name, fields)| (name, fields.split(' ').map(field).collect()))
        .collect()
});

/// A field that KubeVirt's API does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownField {
    /// Its path, as `spec.domain.cpu.core`.
    pub(super) path: String,
    /// The known field that it resembles.
    pub(super) similar: Option<&'static str>,
}

impl UnknownField {
    /// One line.
    pub(super) fn note(&self) -> String {
        let path = &self.path;
        match self.similar {
            Some(similar) => {
                format!("the field {path} is unknown to KubeVirt 1.9: is it {similar}?")
            }
            None => format!("the field {path} is unknown to KubeVirt 1.9"),
        }
    }
}

/// The unknown fields of an object of this kind, in the order in which they are written.
pub(super) fn unknown(object: &Value, kind: &str) -> Vec<UnknownField> {
    let mut found = Vec::new();
    inspect(object, kind, "", &mut found);
    found
}

fn field(text: &'static str) -> (&'static str, Option<&'static str>) {
    let (name, of) = text.split_once(':').unzip();
    (name.unwrap_or(text), of)
}

fn inspect(value: &Value, of: &str, path: &str, found: &mut Vec<UnknownField>) {
    match value {
        Value::Object(object) => inspect_object(object, of, path, found),
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                inspect(element, of, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn inspect_object(
    object: &Map<String, Value>,
    of: &str,
    path: &str,
    found: &mut Vec<UnknownField>,
) {
    let Some(fields) = TYPES.get(of) else { return };
    for (name, value) in object {
        let path = match path {
            "" => name.clone(),
            _ => format!("{path}.{name}"),
        };
        match fields.get(name.as_str()) {
            Some(Some(of)) => inspect(value, of, &path, found),
            Some(None) => {}
            None => found.push(UnknownField {
                path,
                similar: similar(name, fields.keys().copied()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{VM, VMI};
    use super::*;

    fn unknown_fields_of(vmi: &Value) -> Vec<(String, Option<&'static str>)> {
        let found = unknown(vmi, VMI).into_iter();
        found.map(|field| (field.path, field.similar)).collect()
    }

    #[test]
    fn a_misspelt_field_has_a_suggestion() {
        let vmi = json!({"spec": {"domain": {"memroy": {"guest": "1Gi"}, "cpu": {"core": 2},
            "devices": {"disks": [{"name": "a"}, {"nmae": "b", "dsik": {}}]}}}, "xyzzy": 1});
        let expected = [
            ("spec.domain.memroy", Some("memory")),
            ("spec.domain.cpu.core", Some("cores")),
            ("spec.domain.devices.disks[1].nmae", Some("name")),
            ("spec.domain.devices.disks[1].dsik", Some("disk")),
            ("xyzzy", None),
        ];
        assert_eq!(
            unknown_fields_of(&vmi),
            expected.map(|(path, similar)| (path.to_owned(), similar))
        );
    }

    #[test]
    fn names_that_users_choose_are_not_fields() {
        let vmi = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"x/y": "z"}},
            "spec": {"nodeSelector": {"disk": "ssd"}, "domain": {"resources": {"requests":
            {"example.com/gpu": "1"}}}}, "status": {"anything": 1}});
        assert_eq!(unknown_fields_of(&vmi), []);
    }

    #[test]
    fn every_type_of_the_table_is_there() {
        for fields in TYPES.values() {
            for of in fields.values().flatten() {
                assert!(TYPES.contains_key(of), "{of}");
            }
        }
        assert!(TYPES.contains_key(VMI) && TYPES.contains_key(VM));
    }
}
