//! Writes values as lines. JSON is YAML, so scalars are written as JSON.

use serde_json::Value;

/// An item of a block list.
pub(super) fn item(item: &Value, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent);
    match item.as_object().filter(|members| !members.is_empty()) {
        None => vec![format!("{pad}- {item}")],
        Some(members) => {
            let lines = members.iter().enumerate().map(|(n, (name, value))| {
                let dash = if n == 0 { "- " } else { "  " };
                format!("{pad}{dash}{}: {value}", key(name))
            });
            lines.collect()
        }
    }
}

/// An entry of a block mapping, with a line for each part of the value.
pub(super) fn entry(name: &str, value: &Value, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent);
    let name = key(name);
    let below: Vec<String> = match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| entry(name, value, indent + 2))
            .collect(),
        Value::Array(items) => items
            .iter()
            .flat_map(|value| item(value, indent + 2))
            .collect(),
        _ => Vec::new(),
    };
    if below.is_empty() {
        return vec![format!("{pad}{name}: {value}")];
    }
    let mut lines = vec![format!("{pad}{name}:")];
    lines.extend(below);
    lines
}

/// A key, quoted if YAML would parse it differently.
pub(super) fn key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    if name.starts_with(begins)
        && name.chars().all(plain)
        && !words.contains(&name.to_ascii_lowercase().as_str())
    {
        name.to_owned()
    } else {
        Value::from(name).to_string()
    }
}
