//! Compares XML and JSON of the corpus.

use domain_xml::{Document, Element};
use serde_json::Value;

/// Compares two documents. Attributes may be in any order, white space around text is ignored, and the order of
/// children matters only among children of the same name.
pub(crate) fn compare_xml(expected: &str, actual: &str) -> Result<(), String> {
    let expected = Document::parse(expected).map_err(|error| format!("expected XML: {error}"))?;
    let actual = Document::parse(actual).map_err(|error| format!("actual XML: {error}"))?;
    compare_elements(expected.root(), actual.root(), expected.root().tag_name())
}

fn compare_elements(expected: &Element, actual: &Element, path: &str) -> Result<(), String> {
    let (expected_own, actual_own) = (attributes_and_text(expected), attributes_and_text(actual));
    if expected_own != actual_own {
        return Err(format!(
            "{path}: expected {expected_own:?}, got {actual_own:?}"
        ));
    }
    let mut names: Vec<_> = expected
        .children()
        .chain(actual.children())
        .map(Element::tag_name)
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (expected, actual) = (
            children_with_name(expected, name),
            children_with_name(actual, name),
        );
        if expected.len() != actual.len() {
            return Err(format!(
                "{path}/{name}: expected {} of them, got {}",
                expected.len(),
                actual.len()
            ));
        }
        for (index, (expected, actual)) in expected.into_iter().zip(actual).enumerate() {
            compare_elements(expected, actual, &format!("{path}/{name}[{index}]"))?;
        }
    }
    Ok(())
}

fn children_with_name<'a>(element: &'a Element, name: &str) -> Vec<&'a Element> {
    let children = element.children();
    children.filter(|child| child.tag_name() == name).collect()
}

/// The sorted attributes and the text of an element.
fn attributes_and_text(element: &Element) -> (Vec<(String, String)>, String) {
    let mut attributes: Vec<_> = element
        .attrs()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    attributes.sort();
    (attributes, element.text().trim().to_owned())
}

/// Compares two JSON values. Null and an absent field are equal.
pub(crate) fn compare_json(expected: &Value, actual: &Value, path: &str) -> Result<(), String> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let keys = expected.keys().chain(actual.keys());
            for key in keys {
                let (expected, actual) = (
                    expected.get(key).unwrap_or(&Value::Null),
                    actual.get(key).unwrap_or(&Value::Null),
                );
                compare_json(expected, actual, &format!("{path}.{key}"))?;
            }
            Ok(())
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let pairs = expected.iter().zip(actual).enumerate();
            pairs
                .into_iter()
                .try_for_each(|(index, (expected, actual))| {
                    compare_json(expected, actual, &format!("{path}[{index}]"))
                })
        }
        _ if expected == actual => Ok(()),
        _ => Err(format!("{path}: expected {expected}, got {actual}")),
    }
}

/// Compares what a decoder makes of two JSON values that knows the fields of the first: others are ignored, and an absent
/// field has the zero value of its type.
pub(crate) fn compare_decoded_json(
    expected: &Value,
    actual: &Value,
    path: &str,
) -> Result<(), String> {
    match (expected, actual) {
        (Value::Object(known), Value::Object(fields)) => {
            known.iter().try_for_each(|(key, expected)| {
                let actual = fields.get(key).unwrap_or(&Value::Null);
                compare_decoded_json(expected, actual, &format!("{path}.{key}"))
            })
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let mut pairs = expected.iter().zip(actual).enumerate();
            pairs.try_for_each(|(index, (expected, actual))| {
                compare_decoded_json(expected, actual, &format!("{path}[{index}]"))
            })
        }
        _ if expected == actual || is_zero(expected) && is_zero(actual) => Ok(()),
        _ => Err(format!("{path}: expected {expected}, got {actual}")),
    }
}

/// Whether a decoder makes a type's zero value of it, as of an absent field.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
        Value::Bool(true) => false,
    }
}
