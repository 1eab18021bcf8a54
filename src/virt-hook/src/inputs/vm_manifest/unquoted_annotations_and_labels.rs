//! Annotations and labels whose values YAML does not read as text. Kubernetes refuses them, too.

use hook_host::printable;
use serde_json::Value;

use super::ManifestError;

/// Maximum number of bytes of a key or value that an error shows.
const MAX_SHOWN: usize = 120;

/// Refuses the first value that is a number or a boolean. `metadata_path` is the path of the object's metadata for the
/// error.
pub(super) fn refuse(object: &Value, metadata_path: &str) -> Result<(), ManifestError> {
    for field in ["annotations", "labels"] {
        let values = object.pointer(&format!("/metadata/{field}"));
        for (key, value) in values.and_then(Value::as_object).into_iter().flatten() {
            if value.is_number() || value.is_boolean() {
                return Err(ManifestError::Unquoted {
                    path: format!("{metadata_path}.{field}: {}", printable(key, MAX_SHOWN)),
                    value: printable(&value.to_string(), MAX_SHOWN),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_without_quotes_is_named_with_its_place() {
        let annotated =
            |usb: Value| json!({"metadata": {"annotations": {"usb": usb}, "labels": {"a": "1"}}});
        assert!(refuse(&annotated("1234".into()), "metadata").is_ok());
        let error = refuse(&annotated(1234.into()), "metadata")
            .err()
            .map(|error| error.to_string());
        let expected =
            "metadata.annotations: usb is 1234, which YAML does not read as text: put it in quotes";
        assert_eq!(error.as_deref(), Some(expected));
    }
}
