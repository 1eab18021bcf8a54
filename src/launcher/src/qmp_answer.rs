//! Answers of QEMU's monitor. They have a size limit, because a guest may control QEMU.

use hook_host::printable;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// QEMU describes a disk in a few kilobytes.
const LARGEST: usize = 16 << 20;
/// The most bytes of QEMU's reason.
const MAX_REFUSAL: usize = 768;

/// Why an answer has no value.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU refuses the command.
    #[error("QEMU refuses: {0}")]
    Refused(String),
    /// The answer is larger than any that QEMU gives.
    #[error("the answer of QEMU's monitor has {0} bytes, at most {LARGEST} are read")]
    TooLarge(usize),
    /// The answer is of another form.
    #[error("the answer of QEMU's monitor is not understood: {0}")]
    Json(#[from] serde_json::Error),
}

/// Other members, such as the id that libvirt gave the command, are skipped.
#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct Answer<T> {
    #[serde(rename = "return", default, deserialize_with = "present")]
    value: Option<T>,
    #[serde(default)]
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    desc: String,
}

/// Distinguishes a member that is `null` from a missing one.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// The `return` member of an answer.
pub(crate) fn parse<T: DeserializeOwned>(json: &str) -> Result<T, QmpError> {
    if json.len() > LARGEST {
        return Err(QmpError::TooLarge(json.len()));
    }
    match serde_json::from_str(json)? {
        Answer {
            error: Some(Refusal { desc }),
            ..
        } => Err(QmpError::Refused(printable(&desc, MAX_REFUSAL))),
        Answer {
            value: Some(value), ..
        } => Ok(value),
        Answer { .. } => Err(serde_json::Error::missing_field("return").into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn answer_refusal_and_invalid_json_are_distinguished() {
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
        for nonsense in ["", "{}", "[]", r#"{"return":{}}"#, &"[".repeat(200)] {
            let error = parse::<Vec<String>>(nonsense).unwrap_err();
            assert!(matches!(error, QmpError::Json(_)), "{nonsense}: {error}");
        }
        let large = format!("\"{}\"", "x".repeat(LARGEST));
        assert!(matches!(
            parse::<String>(&large),
            Err(QmpError::TooLarge(_))
        ));
    }
}
