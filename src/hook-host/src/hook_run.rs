//! One run of one hook, and its log.

use std::time::Duration;

use domain_xml::Change;

use crate::{FailurePolicy, HookError, HookIdentity, HookPoint};

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For the hook's author.
    Debug,
    /// What was done.
    Info,
    /// Something unexpected.
    Warn,
    /// A failure; also everything that the hook wrote to its standard error.
    Error,
}

/// A log line of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The level.
    pub level: LogLevel,
    /// The text without line end.
    pub message: String,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The hook succeeded, with or without changes.
    Ok,
    /// The hook failed; none of its changes were kept.
    Failed(HookError),
}

impl Outcome {
    /// `ok`, or the kind of the error, for records and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(error) => error.kind(),
        }
    }
}

/// One run of one hook at one hook point.
#[derive(Debug, Clone)]
pub struct Run {
    /// The hook: its directory, and also its file if the directory contains several hooks.
    pub hook: String,
    /// Its name, version and digest.
    pub identity: HookIdentity,
    /// The hook point.
    pub hook_point: HookPoint,
    /// The changes. For cloud-init the path is the document's name and the texts are left out:
    /// they may be secrets.
    pub changes: Vec<Change>,
    /// Duration, the host's part included.
    pub duration: Duration,
    /// Peak of the linear memories in bytes; 0 for a sidecar.
    pub peak_memory: usize,
    /// The outcome.
    pub outcome: Outcome,
    /// What a failure means for the virtual machine. Changes of a dry run are not kept, and a failure
    /// of an ignored or dry run does not stop the start.
    pub failure_policy: FailurePolicy,
    /// The log (WASM hooks only).
    pub log: Vec<LogLine>,
}
