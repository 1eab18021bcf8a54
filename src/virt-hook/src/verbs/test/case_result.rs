//! The result of one case of `test`.

use serde::Serialize;

use super::difference::Difference;

/// The result of a case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CaseResult {
    pub(super) name: String,
    pub(super) outcome: CaseOutcome,
    /// The differences from what is expected.
    pub(super) differences: Vec<Difference>,
    /// The reason why `--update` did not write the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_written: Option<&'static str>,
    /// A note on what `--update` wrote, or on why nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<&'static str>,
    /// The error in which the case ends, if it was not expected.
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    pub(super) unexpected_error: Option<String>,
    /// Whether hooks neither changed nor refused anything.
    #[serde(skip)]
    pub(super) is_idle: bool,
}

/// The outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CaseOutcome {
    Passed,
    Failed,
    Updated,
}
