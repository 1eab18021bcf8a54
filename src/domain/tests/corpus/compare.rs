//! Comparison of XML and JSON for the corpus.

use domain_xml::{Document, Element};
use serde_json::Value;

/// Compares two documents: attributes in any order, white space around text ignored, children in
/// order only among those of the same name.
pub(crate) fn xml(expected: &str, actual: &str) -> Result<(), String> {
    let expected = Document::parse(expected).map_err(|error| format!("expected XML: {error}"))?;
    let actual = Document::parse(actual).map_err(|error| format!("actual XML: {error}"))?;
    element(expected.root(), actual.root(), expected.root().name())
}

fn element(expected: &Element, actual: &Element, path: &str) -> Result<(), String> {
    let (wants, has) = (own(expected), own(actual));
    if wants != has {
        return Err(format!("{path}: expected {wants:?}, got {has:?}"));
    }
    let mut names: Vec<_> = expected
        .children()
        .chain(actual.children())
        .map(Element::name)
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let wants: Vec<_> = expected
            .children()
            .filter(|child| child.name() == name)
            .collect();
        let has: Vec<_> = actual
            .children()
            .filter(|child| child.name() == name)
            .collect();
        if wants.len() != has.len() {
            return Err(format!(
                "{path}/{name}: expected {} of them, got {}",
                wants.len(),
                has.len()
            ));
        }
        for (place, (wants, has)) in wants.iter().zip(&has).enumerate() {
            element(wants, has, &format!("{path}/{name}[{place}]"))?;
        }
    }
    Ok(())
}

/// Attributes and text.
fn own(element: &Element) -> (Vec<(String, String)>, String) {
    let mut attributes: Vec<_> = element
        .attrs()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    attributes.sort();
    (attributes, element.text().trim().to_owned())
}

/// Compares two JSON values; a null and an absent field are the same.
pub(crate) fn json(expected: &Value, actual: &Value, path: &str) -> Result<(), String> {
    match (expected, actual) {
        (Value::Object(wants), Value::Object(has)) => {
            let keys = wants.keys().chain(has.keys());
            for key in keys {
                let (wants, has) = (
                    wants.get(key).unwrap_or(&Value::Null),
                    has.get(key).unwrap_or(&Value::Null),
                );
                json(wants, has, &format!("{path}.{key}"))?;
            }
            Ok(())
        }
        (Value::Array(wants), Value::Array(has)) if wants.len() == has.len() => {
            let pairs = wants.iter().zip(has).enumerate();
            pairs
                .into_iter()
                .try_for_each(|(place, (wants, has))| json(wants, has, &format!("{path}[{place}]")))
        }
        _ if expected == actual => Ok(()),
        _ => Err(format!("{path}: expected {expected}, got {actual}")),
    }
}
