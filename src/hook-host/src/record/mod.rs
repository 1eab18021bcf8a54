//! Records of runs: one JSON file per run, with everything that [`crate::replay`] needs.

mod entry_conversion;
mod reader;
mod record_json_format;
mod recorder;
mod redaction;
mod run_evidence;

pub use reader::ReadError;
pub(crate) use record_json_format::HookPayload;
pub use record_json_format::{
    GrantEntry, HookEntry, Input, InvocationEntry, LimitsUsed, LogEntry, Output, Record,
};
pub(crate) use recorder::Recorder;
pub use recorder::{RecordConfig, RecordError};
pub(crate) use run_evidence::RunEvidence;
