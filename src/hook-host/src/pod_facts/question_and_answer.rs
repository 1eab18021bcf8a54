//! A question of a hook about the pod, and its answer.

use serde::{Deserialize, Serialize};

/// Why a question has no answer. The text names the fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FactError {
    /// The fact is not granted to the hook.
    Denied(String),
    /// The pod does not have the fact.
    Absent(String),
    /// The fact cannot be read, or the call has used up its questions or bytes.
    Unreadable(String),
}

/// A question of a hook about the pod, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFactEntry {
    /// The name of the fact, such as `annotations/KEY`.
    pub fact: String,
    /// Whether the hook waits until the pod has the fact.
    pub wait: bool,
    /// The text of the fact; `None` if the pod does not have it. Networks are a JSON list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why the question has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FactError>,
    /// Whether a record may contain the value.
    #[serde(skip)]
    pub(crate) may_be_recorded: bool,
    /// Whether the value may be a password or a key.
    #[serde(skip)]
    pub(crate) may_be_secret: bool,
}

impl PodFactEntry {
    /// Whether the hook read a value that may be a password or a key, and that records may not contain.
    pub(crate) fn is_withheld_secret(&self) -> bool {
        self.may_be_secret && !self.may_be_recorded && self.value.is_some()
    }
}
