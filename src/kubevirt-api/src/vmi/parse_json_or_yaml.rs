//! Parses a VMI from JSON, or its manifest from JSON or YAML.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::{
    MAX_BYTES, Metadata, Spec, Status, Vmi, VmiError, error, manifest_kind, name_checks,
    null_as_default, object_only_structs,
};
use crate::strict_json_or_yaml::{self, SyntaxError};

#[derive(Deserialize)]
#[serde(expecting = "a VirtualMachineInstance")]
struct VmiFields {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default, deserialize_with = "null_as_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "null_as_default")]
    status: Status,
}

impl Vmi {
    /// Parses a VMI from JSON.
    ///
    /// # Errors
    /// [`VmiError`] if the VMI is too large, is not JSON, has a field of the wrong type (the error names its path), has
    /// no name, or has a name that is not safe in a path.
    pub fn from_json(bytes: &[u8]) -> Result<Self, VmiError> {
        let (raw, value) = parse_json(bytes)?;
        Self::from_value(raw, value)
    }

    /// Parses the manifest of a VMI in JSON or YAML. Users write manifests, so another `kind` is an error; a missing
    /// `kind` is accepted.
    ///
    /// # Errors
    /// As for [`Vmi::from_json`], and [`VmiError::Kind`].
    pub fn from_yaml_or_json(bytes: &[u8]) -> Result<Self, VmiError> {
        let (raw, value) = if strict_json_or_yaml::is_json(bytes) {
            parse_json(bytes)?
        } else {
            parse_yaml(bytes)?
        };
        manifest_kind::check(&value)?;
        Self::from_value(raw, value)
    }

    fn from_value(raw: Arc<str>, value: Value) -> Result<Self, VmiError> {
        // Tracking the path takes as long as parsing, so the path is tracked only after an error.
        let fields = VmiFields::deserialize(object_only_structs::ObjectOnlyStructs(&value))
            .or_else(|_| {
                serde_path_to_error::deserialize(object_only_structs::ObjectOnlyStructs(&value))
                    .map_err(|error| VmiError::Field {
                        path: error.path().to_string(),
                        message: error::plain_message(&error.inner().to_string()),
                    })
            });
        let VmiFields {
            metadata,
            spec,
            status,
        } = fields?;
        if metadata.name.is_empty() {
            return Err(VmiError::Missing("metadata.name"));
        }
        name_checks::check(&metadata, &spec)?;
        Ok(Self {
            metadata,
            spec,
            status,
            raw,
            value: Arc::new(value),
        })
    }
}

fn parse_json(bytes: &[u8]) -> Result<(Arc<str>, Value), VmiError> {
    check_size(bytes)?;
    let text = std::str::from_utf8(bytes).map_err(|error| syntax_error("JSON", &error))?;
    let value = serde_json::from_str(text).map_err(|error| syntax_error("JSON", &error))?;
    Ok((text.into(), value))
}

/// A single YAML document as JSON text and tree.
fn parse_yaml(bytes: &[u8]) -> Result<(Arc<str>, Value), VmiError> {
    check_size(bytes)?;
    let documents = strict_json_or_yaml::documents(bytes)?;
    let mut documents = documents.into_iter();
    let value = documents.next().unwrap_or_default();
    if documents.next().is_some() {
        return Err(syntax_error("YAML", &"there are several documents").into());
    }
    Ok((value.to_string().into(), value))
}

fn check_size(bytes: &[u8]) -> Result<(), VmiError> {
    match bytes.len() {
        bytes if bytes > MAX_BYTES => Err(VmiError::TooLarge { bytes }),
        _ => Ok(()),
    }
}

fn syntax_error(format: &'static str, error: &dyn std::fmt::Display) -> SyntaxError {
    SyntaxError {
        format,
        message: error.to_string(),
    }
}
