//! One run of one hook, and its log.

use std::time::Duration;

use domain_xml::host::Change;

use crate::{FailurePolicy, HookError, HookIdentity, HookPoint};

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Details for the author of the hook.
    Debug,
    /// An action of the hook.
    Info,
    /// Something unexpected.
    Warn,
    /// A failure; also the level of everything that the hook writes to its standard error.
    Error,
}

/// A log line of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The level.
    pub level: LogLevel,
    /// The text without the line end.
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
    /// Name, version and digest of the hook.
    pub identity: HookIdentity,
    /// The hook point.
    pub hook_point: HookPoint,
    /// The names of the hook points at which the hook should have been called, too, but plugins are not called.
    pub uncalled_points: Vec<String>,
    /// Whether the operator's policy makes it a final hook, whose changes are sealed for the hooks after it.
    pub is_final: bool,
    /// The changes that the hook made. For cloud-init, the path is the document's name, and the texts are left out,
    /// because they may be secret.
    pub changes: Vec<Change>,
    /// Duration of the run, the host's checks included.
    pub duration: Duration,
    /// Peak of the linear memories in bytes; 0 for a sidecar.
    pub peak_memory: usize,
    /// The outcome.
    pub outcome: Outcome,
    /// The hook's failure policy. Changes of a dry run are not kept, and a failure under `Ignore` or `DryRun` ends
    /// nothing.
    pub failure_policy: FailurePolicy,
    /// The hook's log lines; empty for a sidecar.
    pub log: Vec<LogLine>,
}
