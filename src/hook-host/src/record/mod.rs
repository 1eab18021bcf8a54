//! Records of runs: one JSON file per run, with everything that [`crate::replay`] needs.

mod entry_conversion;
mod format;
mod reader;
mod recorder;
mod redaction;
mod run_evidence;

pub(crate) use format::HookPayload;
pub use format::{
    GrantEntry, HookEntry, Input, InvocationEntry, LimitsUsed, LogEntry, Output, Record,
};
pub use reader::ReadError;
pub(crate) use recorder::Recorder;
pub use recorder::{RecordConfig, RecordError};
pub(crate) use run_evidence::RunEvidence;
