//! OpenShift's Templates: objects with parameters, which are replaced by their default values.

use serde_json::{Map, Value};

use super::Note;

const KIND: &str = "Template";
const GROUPS: [&str; 2] = ["template.openshift.io/", "v1"];
/// Maximum number of parameters that a note names.
const MAX_PARAMETERS: usize = 10;

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
/// in lower case.
pub(super) fn process(template: &Value) -> (Vec<Value>, Note) {
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
    for object in &mut objects {
        replace(object, &parameters);
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
    (objects, note)
}

fn replace(value: &mut Value, parameters: &[(&str, String, bool)]) {
    match value {
        Value::String(text) => {
            if let Some(replaced) = replaced(text, parameters) {
                *value = replaced;
            }
        }
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|element| replace(element, parameters)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace(field, parameters)),
        _ => {}
    }
}

/// `${{NAME}}` as a whole text becomes a value of any type, and `${NAME}` in a text becomes text.
fn replaced(text: &str, parameters: &[(&str, String, bool)]) -> Option<Value> {
    let whole = text
        .strip_prefix("${{")
        .and_then(|rest| rest.strip_suffix("}}"));
    if let Some(name) = whole {
        let (_, value, _) = parameters.iter().find(|(known, ..)| *known == name)?;
        return Some(serde_json::from_str(value).unwrap_or_else(|_| value.clone().into()));
    }
    if !text.contains("${") {
        return None;
    }
    let mut text = text.to_owned();
    for (name, value, _) in parameters {
        text = text.replace(&format!("${{{name}}}"), value);
    }
    Some(text.into())
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
        let (objects, note) = process(&template);
        let expected = json!([{"metadata": {"name": "name"}, "cores": 2, "image": "a/name:7", "list": ["$x"]}]);
        assert_eq!(Value::Array(objects), expected);
        assert!(
            note.text
                .ends_with("of its parameters, and where there is none: NAME is name"),
            "{}",
            note.text
        );
    }
}
