//! Comparisons of numbers and texts, and the zero values of Go.

use serde_json::Value;

/// The JSON object in a text, if there is one.
pub(super) fn json_object(text: &str) -> Option<Value> {
    let value = serde_json::from_str::<Value>(text).ok();
    value.filter(Value::is_object)
}

/// Whether the value is the zero value of its Go type.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

/// Whether two numbers can have the same unit; see `Strictness::Unit`.
pub(super) fn is_same_unit(expected: Option<f64>, found: Option<f64>) -> bool {
    const FACTOR: f64 = 30.0;
    match (expected, found) {
        (Some(expected), Some(found)) if expected != 0.0 => {
            (1.0 / FACTOR..=FACTOR).contains(&(found / expected))
        }
        _ => true,
    }
}

/// The text before the last dash.
pub(super) fn without_version(text: &str) -> &str {
    text.rsplit_once('-').map_or(text, |(name, _)| name)
}
