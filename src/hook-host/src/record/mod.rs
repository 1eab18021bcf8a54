//! What is kept of each run: in memory ([`Run`]), in files ([`Record`]), and run again ([`replay`]).

mod file;
mod replay;
mod secrets;
mod write;

use std::time::Duration;

use domain_xml::Change;

use crate::{FailurePolicy, HookError, HookPoint};

pub(crate) use file::Given;
pub use file::{Input, Invoked, Origin, Output, Record, Said, Told, Used};
pub use replay::{Difference, ReplayError, Replayed, replay};
pub use write::{RecordConfig, RecordError};
pub(crate) use write::{Recorder, Witness};

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For the hook's author.
    Debug,
    /// What was done.
    Info,
    /// What may surprise.
    Warn,
    /// What went wrong; also what the hook wrote to its standard error.
    Error,
}

/// One line that a hook logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// The line, without its end.
    pub message: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It did its work, changes or none.
    Ok,
    /// It did not; nothing of it was kept.
    Failed(HookError),
}

/// One run of one hook at one hook point.
#[derive(Debug, Clone)]
pub struct Run {
    /// The hook: its directory, and its file too when the directory holds more than one.
    pub hook: String,
    /// Where it ran.
    pub hook_point: HookPoint,
    /// What it changed. For cloud-init the path is the document's name and the texts are left out:
    /// they may be secrets.
    pub changes: Vec<Change>,
    /// How long it took, the host's part included.
    pub duration: Duration,
    /// Peak of its linear memories in bytes; 0 for a sidecar.
    pub peak_memory: usize,
    /// How it ended.
    pub outcome: Outcome,
    /// What that means for the virtual machine. A dry run's changes were not kept, and what an
    /// ignored or dry run failed at stopped nothing.
    pub failure_policy: FailurePolicy,
    /// What it logged (WASM hooks only).
    pub log: Vec<LogLine>,
}
