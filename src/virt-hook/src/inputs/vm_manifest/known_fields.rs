//! The fields of a VMI and of a VirtualMachine that KubeVirt's API has.

use std::collections::HashMap;
use std::sync::LazyLock;

use kubevirt_api::vmi::Quantity;
use serde_json::{Map, Value};

use crate::inputs::similar_name::similar;

/// The table of types; its head describes the format.
const TYPE_TABLE: &str = include_str!("vmi_fields.txt");

/// The fields of a type, each with its type if that has fields.
pub(super) type Fields = HashMap<&'static str, Option<&'static str>>;

static TYPES: LazyLock<HashMap<&'static str, Fields>> = LazyLock::new(|| {
    let lines = TYPE_TABLE.lines().filter(|line| !line.starts_with('#'));
    let types = lines.filter_map(|line| line.split_once(' '));
    types
        .map(|(name, fields)| (name, fields.split(' ').map(field).collect()))
        .collect()
});

/// A field that KubeVirt's API does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownField {
    /// The path of the field, such as `spec.domain.cpu.core`.
    pub(super) path: String,
    /// A known field of a similar name.
    pub(super) similar: Option<&'static str>,
}

impl UnknownField {
    /// The note about the field, in one line.
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

/// The fields of a type of the table.
pub(super) fn fields_of(type_name: &str) -> Option<&'static Fields> {
    TYPES.get(type_name)
}

/// The unknown fields of an object of this kind, in the order in which they are written.
pub(super) fn unknown(object: &Value, kind: &str) -> Vec<UnknownField> {
    let mut unknown_fields = Vec::new();
    collect_unknown(object, kind, "", &mut unknown_fields);
    unknown_fields
}

fn field(text: &'static str) -> (&'static str, Option<&'static str>) {
    let (name, field_type) = text.split_once(':').unzip();
    (name.unwrap_or(text), field_type)
}

fn collect_unknown(value: &Value, type_name: &str, path: &str, found: &mut Vec<UnknownField>) {
    match value {
        Value::Object(object) => collect_unknown_in_object(object, type_name, path, found),
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                collect_unknown(element, type_name, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn collect_unknown_in_object(
    object: &Map<String, Value>,
    type_name: &str,
    path: &str,
    found: &mut Vec<UnknownField>,
) {
    let Some(fields) = TYPES.get(type_name) else {
        return;
    };
    for (name, value) in object {
        let path = match path {
            "" => name.clone(),
            _ => format!("{path}.{name}"),
        };
        match fields.get(name.as_str()) {
            Some(Some(field_type)) => collect_unknown(value, field_type, &path, found),
            Some(None) => {}
            None => found.push(UnknownField {
                path,
                similar: similar(name, fields.keys().copied()),
            }),
        }
    }
}

// The form in which the API server stores an object: without unknown fields and nulls, and with quantities in their
// canonical notation. A value of a wrong type is left alone: the VMI is refused for it later.

/// The fields of types that are quantities, or maps of quantities.
const QUANTITIES: [(&str, &[&str]); 5] = [
    ("Memory", &["guest", "maxGuest"]),
    ("ReservedOverhead", &["addedOverhead"]),
    ("ResourceRequirements", &["limits", "requests"]),
    ("EmptyDiskSource", &["capacity"]),
    ("HostDisk", &["capacity"]),
];

/// Brings an object of a type of the table of known fields into its stored form.
pub(super) fn store(value: &mut Value, type_name: &str) {
    match value {
        Value::Object(object) => store_object(object, type_name),
        Value::Array(elements) => {
            for element in elements {
                store(element, type_name);
            }
        }
        _ => {}
    }
}

fn store_object(object: &mut Map<String, Value>, type_name: &str) {
    let Some(fields) = fields_of(type_name) else {
        return;
    };
    object.retain(|name, value| !value.is_null() && fields.contains_key(name.as_str()));
    for (name, value) in object.iter_mut() {
        if let Some(Some(field_type)) = fields.get(name.as_str()) {
            store(value, field_type);
        }
    }
    let quantities = QUANTITIES.iter().find(|(name, _)| *name == type_name);
    for field in quantities.into_iter().flat_map(|(_, fields)| *fields) {
        match object.get_mut(*field) {
            Some(Value::Object(amounts)) => amounts.values_mut().for_each(store_quantity),
            Some(amount) => store_quantity(amount),
            None => {}
        }
    }
}

/// Writes a quantity as the API server does.
pub(super) fn store_quantity(amount: &mut Value) {
    let text = match &*amount {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Ok(canonical) = Quantity::canonical_text(&text) {
        *amount = canonical.into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{VM, VMI};
    use super::*;

    fn unknown_fields_of(vmi: &Value) -> Vec<(String, Option<&'static str>)> {
        let unknown_fields = unknown(vmi, VMI).into_iter();
        unknown_fields
            .map(|field| (field.path, field.similar))
            .collect()
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
    fn the_table_has_every_type_that_it_names() {
        for fields in TYPES.values() {
            for field_type in fields.values().flatten() {
                assert!(TYPES.contains_key(field_type), "{field_type}");
            }
        }
        assert!(TYPES.contains_key(VMI) && TYPES.contains_key(VM));
    }

    #[test]
    fn quantities_are_canonical_and_unknown_fields_and_nulls_are_dropped() {
        let mut spec = json!({
            "domain": {
                "memroy": {},
                "clock": null,
                "memory": {"guest": "1.5Gi", "maxGuest": 2048, "hugepages": {"pageSize": "1024Mi"}},
                "resources": {"requests": {"memory": "0.5Gi", "cpu": "500m", "example.com/gpu": 1}, "limits": {"cpu": "2000m"}},
                "devices": {"disks": [{"name": "a", "disk": {"bus": "virtio", "buss": 1}}]},
            },
            "volumes": [{"name": "a", "emptyDisk": {"capacity": "1.5Gi"}}],
            "nodeSelector": {"any": "b"},
        });
        store(&mut spec, "VirtualMachineInstanceSpec");
        assert_eq!(
            spec,
            json!({
                "domain": {
                    "memory": {"guest": "1536Mi", "maxGuest": "2048", "hugepages": {"pageSize": "1024Mi"}},
                    "resources": {"requests": {"memory": "512Mi", "cpu": "500m", "example.com/gpu": "1"}, "limits": {"cpu": "2"}},
                    "devices": {"disks": [{"name": "a", "disk": {"bus": "virtio"}}]},
                },
                "volumes": [{"name": "a", "emptyDisk": {"capacity": "1536Mi"}}],
                "nodeSelector": {"any": "b"},
            })
        );
    }

    #[test]
    fn values_of_a_wrong_type_are_left_alone() {
        let wrong = json!({"domain": {"memory": {"guest": "much", "maxGuest": {"a": []}}, "devices": 7, "cpu": [1]}});
        let mut spec = wrong.clone();
        store(&mut spec, "VirtualMachineInstanceSpec");
        assert_eq!(spec, wrong);
    }
}
