//! OpenShift's Templates: objects with parameters, which are replaced by their default values.

use serde_json::{Map, Value};

use super::Note;

const KIND: &str = "Template";
const GROUPS: [&str; 2] = ["template.openshift.io/", "v1"];
/// Maximum number of parameters that a note names.
const MAX_PARAMETERS: usize = 10;
/// Maximum number of bytes that parameters add to the objects.
const MAX_ADDED: usize = 16 << 20;

pub(super) fn is_template(fields: &Map<String, Value>) -> bool {
    let text = |field: &str| {
        fields
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    text("kind") == KIND
        && GROUPS
            .iter()
            .any(|group| text("apiVersion").starts_with(group))
        && fields.get("objects").is_some_and(Value::is_array)
}

/// The objects with all parameters replaced, and a note that says so. A parameter without a value is replaced by its name
/// in lower case. `None` if the objects become too large.
pub(super) fn process(template: &Value) -> Option<(Vec<Value>, Note)> {
    let list = |field: &str| template.get(field).and_then(Value::as_array);
    let parameters: Vec<(&str, String, bool)> = list("parameters")
        .into_iter()
        .flatten()
        .filter_map(|parameter| {
            let name = parameter.get("name")?.as_str()?;
            let value = match parameter.get("value") {
                Some(Value::String(value)) => Some(value.clone()),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
                _ => None,
            };
            let stand_in = || name.to_lowercase().replace('_', "-");
            let has_value = value.is_some();
            Some((name, value.unwrap_or_else(stand_in), has_value))
        })
        .collect();
    let mut objects = list("objects").cloned().unwrap_or_default();
    let mut budget = MAX_ADDED;
    for object in &mut objects {
        replace(object, &parameters, &mut budget)?;
    }
    let name = template.pointer("/metadata/name").and_then(Value::as_str);
    let missing = parameters.iter().filter(|(_, _, has_value)| !has_value);
    let missing: Vec<String> = missing
        .take(MAX_PARAMETERS)
        .map(|(name, value, _)| format!("{name} is {value}"))
        .collect();
    let missing = match missing.is_empty() {
        true => String::new(),
        false => format!(", and where there is none: {}", missing.join(", ")),
    };
    let note = Note::origin(format!(
        "this is the VM of the Template {}, with the default values of its parameters{missing}",
        name.unwrap_or_default()
    ));
    Some((objects, note))
}

/// Replaces parameters in all texts of a value; `None` if they add more bytes than the budget has.
fn replace(
    value: &mut Value,
    parameters: &[(&str, String, bool)],
    budget: &mut usize,
) -> Option<()> {
    match value {
        Value::String(text) => {
            if let Some(replaced) = replaced(text, parameters, budget)? {
                *value = replaced;
            }
            Some(())
        }
        Value::Array(elements) => elements
            .iter_mut()
            .try_for_each(|element| replace(element, parameters, budget)),
        Value::Object(fields) => fields
            .values_mut()
            .try_for_each(|field| replace(field, parameters, budget)),
        _ => Some(()),
    }
}

/// `${{NAME}}` as a whole text becomes a value of any type, and `${NAME}` in a text becomes text. What a parameter adds is not
/// replaced again. The inner `None` leaves the text alone.
fn replaced(
    text: &str,
    parameters: &[(&str, String, bool)],
    budget: &mut usize,
) -> Option<Option<Value>> {
    let mut value_of = |name: &str| {
        let known = parameters.iter().find(|(known, ..)| *known == name);
        let Some((_, value, _)) = known else {
            return Some(None);
        };
        *budget = budget.checked_sub(value.len())?;
        Some(Some(value.as_str()))
    };
    let whole = text
        .strip_prefix("${{")
        .and_then(|rest| rest.strip_suffix("}}"));
    if let Some(name) = whole {
        let value = value_of(name)?;
        return Some(
            value.map(|value| {
                serde_json::from_str(value).unwrap_or_else(|_| value.to_owned().into())
            }),
        );
    }
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        let parameter = after.split_once('}');
        let value = match parameter {
            Some((name, _)) => value_of(name)?,
            None => None,
        };
        match (parameter, value) {
            (Some((_, after)), Some(value)) => {
                result.push_str(value);
                rest = after;
            }
            _ => {
                result.push_str("${");
                rest = after;
            }
        }
    }
    result.push_str(rest);
    Some((result != text).then(|| result.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_become_their_values() {
        let template = json!({
            "kind": "Template",
            "apiVersion": "template.openshift.io/v1",
            "metadata": {"name": "fedora"},
            "objects": [{"metadata": {"name": "${NAME}"}, "cores": "${{CORES}}", "image": "a/${NAME}:${TAG}", "list": ["$x"]}],
            "parameters": [{"name": "NAME", "generate": "expression"}, {"name": "CORES", "value": "2"}, {"name": "TAG", "value": 7}],
        });
        assert!(is_template(template.as_object().unwrap_or(&Map::new())));
        let (objects, note) = process(&template).unwrap_or_else(|| panic!("it is too large"));
        let expected = json!([{"metadata": {"name": "name"}, "cores": 2, "image": "a/name:7", "list": ["$x"]}]);
        assert_eq!(Value::Array(objects), expected);
        assert!(
            note.text
                .ends_with("of its parameters, and where there is none: NAME is name"),
            "{}",
            note.text
        );
    }

    #[test]
    fn parameters_in_values_of_parameters_are_not_replaced_and_large_results_are_refused() {
        let template = |value: String, text: &str| {
            json!({
                "kind": "Template",
                "objects": [{"a": text}],
                "parameters": [{"name": "A", "value": "${B}${B}"}, {"name": "B", "value": value}],
            })
        };
        let (objects, _) = process(&template("b".to_owned(), "${A} ${B} ${C} ${"))
            .unwrap_or_else(|| panic!("it is too large"));
        assert_eq!(objects[0]["a"], "${B}${B} b ${C} ${");
        let long = "x".repeat(1 << 20);
        assert!(process(&template(long, &"${B}".repeat(100))).is_none());
    }
}
