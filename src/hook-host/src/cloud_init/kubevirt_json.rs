//! Reads and renders KubeVirt's JSON objects `CloudInitData` and `CloudInitNoCloudSource`.

use serde_json::error::Category;
use serde_json::{Map, Value};

/// The JSON of a `CloudInitNoCloudSource` with user and network data of a `CloudInitData`.
pub(crate) fn no_cloud_source(data: &Map<String, Value>) -> String {
    let mut source = Map::new();
    for (member, data_member) in [("userData", "UserData"), ("networkData", "NetworkData")] {
        let text = string_member(data, data_member);
        if !text.is_empty() {
            source.insert(member.to_owned(), text.into());
        }
    }
    Value::Object(source).to_string()
}

/// The string in a member; empty if the member is absent or not a string.
pub(crate) fn string_member<'a>(data: &'a Map<String, Value>, member: &str) -> &'a str {
    data.get(member).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn has_value(data: &Map<String, Value>, member: &str) -> bool {
    !matches!(data.get(member), None | Some(Value::Null)) && data[member] != ""
}

pub(super) fn is_complete(data: &Map<String, Value>) -> bool {
    let has_meta = |member| {
        data.get(member)
            .is_some_and(|value: &Value| !value.is_null())
    };
    !string_member(data, "UserData").is_empty()
        && (has_meta("NoCloudMetaData") || has_meta("ConfigDriveMetaData"))
}

/// Parses a JSON object; empty bytes and `null` are `None`, any other value is an error.
pub(crate) fn parse_object(bytes: &[u8], what: &str) -> Result<Option<Map<String, Value>>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(bytes).map_err(|error| not_an_object(what, &error))
}

/// The error for `what` without serde's text, which contains values: cloud-init data may be secret.
pub(super) fn not_an_object(what: &str, error: &serde_json::Error) -> String {
    let reason = match error.classify() {
        Category::Data => "it is another value",
        Category::Eof => "it ends early",
        Category::Syntax | Category::Io => "it has a syntax error",
    };
    let (line, column) = (error.line(), error.column());
    format!("{what} is not a JSON object: {reason}, at line {line} column {column}")
}
