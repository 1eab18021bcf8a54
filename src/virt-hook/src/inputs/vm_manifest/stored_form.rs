//! The form in which the API server stores an object: without unknown fields and nulls, and with quantities in their
//! canonical notation. A value of a wrong type is left alone: the VMI is refused for it later.

use kubevirt_api::vmi::Quantity;
use serde_json::{Map, Value};

use super::known_fields;

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
    let Some(fields) = known_fields::fields_of(type_name) else {
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

    use super::*;

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
