//! What converts, but needs something of the launcher at run time that it does not do yet: the guest's
//! DHCP and tap devices. The launcher asks before it starts such a VM.

use serde_json::Value;

use super::ConvertError;
use crate::vmi::Vmi;

const FIELDS: &[&str] = &[
    "spec.domain.devices.interfaces[].bridge",
    "spec.domain.devices.interfaces[].masquerade",
    "spec.domain.devices.interfaces[].dhcpOptions",
];

/// Checks that the launcher can serve all that the VMI asks for beyond its domain.
///
/// # Errors
/// [`ConvertError::Unsupported`] naming the first field that it cannot.
pub fn check_served(vmi: &Vmi) -> Result<(), ConvertError> {
    let found = FIELDS
        .iter()
        .find_map(|field| find(vmi.value(), field, String::new()));
    if let Some(field) = found {
        return Err(ConvertError::unsupported(field));
    }
    Ok(())
}

/// The path of the field where it asks for something; `[]` stands for every element of a list.
fn find(value: &Value, field: &str, mut path: String) -> Option<String> {
    let (segment, rest) = field
        .split_once('.')
        .map_or((field, None), |(segment, rest)| (segment, Some(rest)));
    let name = segment.trim_end_matches("[]");
    let value = value.get(name)?;
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
    let descend = |value: &Value, path: String| match rest {
        Some(rest) => find(value, rest, path),
        None => asks(value).then_some(path),
    };
    if name.len() == segment.len() {
        return descend(value, path);
    }
    let elements = value.as_array()?.iter().enumerate();
    elements
        .into_iter()
        .find_map(|(place, element)| descend(element, format!("{path}[{place}]")))
}

fn asks(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_fields_that_ask_for_something_are_found() {
        let value = json!({"a": {"b": [{"c": false}, {"c": {}}], "d": [], "e": null}});
        assert_eq!(
            find(&value, "a.b[].c", String::new()).as_deref(),
            Some("a.b[1].c")
        );
        for field in ["a.d", "a.e", "a.x", "a.b[].x", "a.b.c", "a.d[].c"] {
            assert_eq!(find(&value, field, String::new()), None, "{field}");
        }
    }
}
