//! Parses answers of QEMU's monitor. Their size is limited, because a guest may control QEMU.

use hook_host::printable;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// Maximum size of an answer in bytes. QEMU needs a few kilobytes to describe a disk.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Maximum length in bytes of QEMU's reason for a refusal.
const MAX_REASON_BYTES: usize = 768;

/// Why an answer has no usable value.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU refused the command.
    #[error("QEMU refuses: {0}")]
    Refused(String),
    /// The answer is larger than the maximum.
    #[error("the answer of QEMU's monitor has {0} bytes, at most {MAX_ANSWER_BYTES} are read")]
    TooLarge(usize),
    /// The answer is not the expected JSON.
    #[error("the answer of QEMU's monitor is not understood: {0}")]
    Json(#[from] serde_json::Error),
}

/// An answer. Other members, such as the ID that libvirt gave the command, are ignored.
#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct Answer<T> {
    #[serde(rename = "return", default, deserialize_with = "present")]
    value: Option<T>,
    #[serde(default)]
    error: Option<ErrorMember>,
}

#[derive(Deserialize)]
struct ErrorMember {
    desc: String,
}

/// Deserializes a member that exists, so that `null` is distinguished from a missing member.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// The `return` member of an answer.
pub(crate) fn parse<T: DeserializeOwned>(json: &str) -> Result<T, QmpError> {
    if json.len() > MAX_ANSWER_BYTES {
        return Err(QmpError::TooLarge(json.len()));
    }
    match serde_json::from_str(json)? {
        Answer {
            error: Some(ErrorMember { desc }),
            ..
        } => Err(QmpError::Refused(printable(&desc, MAX_REASON_BYTES))),
        Answer {
            value: Some(value), ..
        } => Ok(value),
        Answer { .. } => Err(serde_json::Error::missing_field("return").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_refusals_and_invalid_answers_are_distinguished() {
        let names: Vec<String> = parse(r#"{"return":["a"],"id":"libvirt-40"}"#).unwrap();
        assert_eq!(names, ["a"]);
        let refused = parse::<Vec<String>>(
            r#"{"id":"x","error":{"class":"DeviceNotFound","desc":"Device 'a' not found"}}"#,
        );
        assert_eq!(
            refused.unwrap_err().to_string(),
            "QEMU refuses: Device 'a' not found"
        );
        let other = r#"{"more":[{"deep":[1]}],"return":null}"#;
        assert_eq!(parse::<Option<u64>>(other).unwrap(), None);
        for invalid in ["", "{}", "[]", r#"{"return":{}}"#, &"[".repeat(200)] {
            let error = parse::<Vec<String>>(invalid).unwrap_err();
            assert!(matches!(error, QmpError::Json(_)), "{invalid}: {error}");
        }
        let large = format!("\"{}\"", "x".repeat(MAX_ANSWER_BYTES));
        assert!(matches!(
            parse::<String>(&large),
            Err(QmpError::TooLarge(_))
        ));
    }
}
