//! Records of runs: one JSON file per run, with everything that [`crate::replay`] needs.

mod entry_conversion;
mod read_record_file;
mod record_from_run;
mod record_json_format;
mod record_writer;
mod redaction;

pub use read_record_file::RecordReadError;
pub(crate) use record_from_run::RunEvidence;
pub(crate) use record_json_format::HookPayload;
pub use record_json_format::{
    GrantEntry, HookEntry, Input, InvocationEntry, LimitsUsed, LogEntry, Output, Record, SealEntry,
    SealedChange,
};
pub(crate) use record_writer::RecordWriter;
pub use record_writer::{RecordConfig, RecordError};
