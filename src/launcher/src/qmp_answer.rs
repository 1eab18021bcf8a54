//! Answers of QEMU's monitor. QEMU may have been taken over by its guest, so that an answer has a limit.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// QEMU describes a disk in a few kilobytes.
const LARGEST: usize = 16 << 20;

/// An answer of no use.
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

#[derive(Deserialize)]
enum Answer<T> {
    #[serde(rename = "return")]
    Return(T),
    #[serde(rename = "error")]
    Error { desc: String },
}

/// The `return` member of an answer.
pub(crate) fn parse<T: DeserializeOwned>(json: &str) -> Result<T, QmpError> {
    if json.len() > LARGEST {
        return Err(QmpError::TooLarge(json.len()));
    }
    let mut answer: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)?;
    // QEMU repeats the id that libvirt gave the command.
    answer.remove("id");
    match serde_json::from_value(answer.into())? {
        Answer::Return(value) => Ok(value),
        Answer::Error { desc } => Err(QmpError::Refused(desc)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn value_refusal_and_nonsense_are_told_apart() {
        let names: Vec<String> = parse(r#"{"return":["a"],"id":"libvirt-40"}"#).unwrap();
        assert_eq!(names, ["a"]);
        let refused = parse::<Vec<String>>(
            r#"{"id":"x","error":{"class":"DeviceNotFound","desc":"Device 'a' not found"}}"#,
        );
        assert_eq!(
            refused.unwrap_err().to_string(),
            "QEMU refuses: Device 'a' not found"
        );
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
