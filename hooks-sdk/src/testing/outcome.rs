//! How a call of a hook went.

use std::fmt;
use std::time::Duration;

use domain_xml::Change;
use hook_host::LogLine;

/// How a call of a hook went.
#[derive(Debug, Clone)]
pub struct Ran<T> {
    /// What the hook gave, or why it gave nothing.
    pub result: Result<T, Refusal>,
    /// What it logged, its standard streams included.
    pub log: Vec<LogLine>,
    /// How long it took.
    pub duration: Duration,
    /// Of all its memories together, in bytes; 0 natively.
    pub peak_memory: usize,
}

/// Why a hook gave nothing that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It says no.
    Veto(String),
    /// It failed, crashed or ran into a limit, in the host's words.
    Failure(String),
    /// It changed what it does not wish for.
    Denied(String),
    /// What it gave cannot be used.
    BadOutput(String),
}

/// A domain as a hook left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defined {
    /// The whole XML.
    pub xml: String,
    /// What the hook changed.
    pub changes: Vec<Change>,
}

impl Defined {
    /// The paths of what the hook changed.
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

impl<T: fmt::Debug> Ran<T> {
    /// Whether it logged a line that contains this text.
    pub fn logged(&self, text: &str) -> bool {
        self.log.iter().any(|line| line.message.contains(text))
    }

    /// What the hook gave. Panics with its refusal and its log when it gave nothing.
    #[track_caller]
    pub fn ok(self) -> T {
        match self.result {
            Ok(value) => value,
            Err(refusal) => panic!("the hook gave nothing: {refusal}{}", told(&self.log)),
        }
    }

    /// The text of its veto. Panics when it did anything else.
    #[track_caller]
    pub fn veto(self) -> String {
        match self.result {
            Err(Refusal::Veto(text)) => text,
            other => panic!("the hook did not say no{}", instead(&other, &self.log)),
        }
    }

    /// The text of its failure, crash or limit. Panics when it did anything else.
    #[track_caller]
    pub fn failure(self) -> String {
        match self.result {
            Err(Refusal::Failure(text)) => text,
            other => panic!("the hook did not fail{}", instead(&other, &self.log)),
        }
    }

    /// What it changed without wishing for it. Panics when it did anything else.
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
        Ok(value) => format!(", it gave {value:?}{}", told(log)),
        Err(refusal) => format!(": {refusal}{}", told(log)),
    }
}

/// A hook's log, as the end of a message.
fn told(log: &[LogLine]) -> String {
    if log.is_empty() {
        return String::new();
    }
    let lines = log
        .iter()
        .map(|line| format!("\n  {:?}: {}", line.level, line.message));
    format!("\nit logged:{}", lines.collect::<String>())
}
