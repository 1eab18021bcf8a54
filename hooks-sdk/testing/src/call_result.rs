//! Results of calls.

use std::fmt;
use std::time::Duration;

use domain_xml::host::Change;
use hook_host::LogLine;

/// The result of a call, with its log and cost.
#[derive(Debug, Clone)]
pub struct CallResult<T> {
    /// The hook's output, or its refusal.
    pub result: Result<T, Refusal>,
    /// The log, standard streams included.
    pub log: Vec<LogLine>,
    /// The duration of the call.
    pub duration: Duration,
    /// The peak size of all its memories together, in bytes; 0 for a native hook.
    pub peak_memory: usize,
}

/// Why a call has no usable output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A veto.
    Veto(String),
    /// A failure, crash or exceeded limit, in the host's words.
    Failure(String),
    /// A change that the hook does not declare.
    Denied(String),
    /// Invalid output.
    BadOutput(String),
}

/// The output of `on-define-domain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedDomain {
    /// The whole XML.
    pub xml: String,
    /// The changes.
    pub changes: Vec<Change>,
}

/// The output of `on-attach-device`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedDevice {
    /// The device's XML.
    pub xml: String,
    /// The changes, with the paths that they would have in the domain: `/domain/devices/disk/...`.
    pub changes: Vec<Change>,
}

impl EditedDomain {
    /// The paths of the changes.
    pub fn paths(&self) -> Vec<&str> {
        self.changes
            .iter()
            .map(|change| change.path.as_str())
            .collect()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Veto(text) => write!(f, "it says no: {text}"),
            Refusal::Failure(text) => f.write_str(text),
            Refusal::Denied(text) => f.write_str(text),
            Refusal::BadOutput(text) => write!(f, "it gave what cannot be used: {text}"),
        }
    }
}

impl<T: fmt::Debug> CallResult<T> {
    /// Whether a line of the log contains this text.
    pub fn logged(&self, text: &str) -> bool {
        self.log.iter().any(|line| line.message.contains(text))
    }

    /// The output. Panics with the refusal and the log if there is none.
    #[track_caller]
    pub fn ok(self) -> T {
        match self.result {
            Ok(value) => value,
            Err(refusal) => panic!("the hook gave nothing: {refusal}{}", log_as_text(&self.log)),
        }
    }

    /// The text of the veto. Panics if the result is anything else.
    #[track_caller]
    pub fn veto(self) -> String {
        match self.result {
            Err(Refusal::Veto(text)) => text,
            other => panic!("the hook did not say no{}", instead(&other, &self.log)),
        }
    }

    /// The text of the failure, crash or limit. Panics if the result is anything else.
    #[track_caller]
    pub fn failure(self) -> String {
        match self.result {
            Err(Refusal::Failure(text)) => text,
            other => panic!("the hook did not fail{}", instead(&other, &self.log)),
        }
    }

    /// The undeclared change. Panics if the result is anything else.
    #[track_caller]
    pub fn denied(self) -> String {
        match self.result {
            Err(Refusal::Denied(text)) => text,
            other => panic!(
                "the hook stayed within its wishes{}",
                instead(&other, &self.log)
            ),
        }
    }
}

fn instead<T: fmt::Debug>(result: &Result<T, Refusal>, log: &[LogLine]) -> String {
    match result {
        Ok(value) => format!(", it gave {value:?}{}", log_as_text(log)),
        Err(refusal) => format!(": {refusal}{}", log_as_text(log)),
    }
}

/// The log, for the end of a message.
fn log_as_text(log: &[LogLine]) -> String {
    if log.is_empty() {
        return String::new();
    }
    let lines = log
        .iter()
        .map(|line| format!("\n  {:?}: {}", line.level, line.message));
    format!("\nit logged:{}", lines.collect::<String>())
}
