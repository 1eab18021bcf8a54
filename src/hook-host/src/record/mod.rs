//! Records of runs: one JSON file per run, with everything that [`crate::replay`] needs.

mod build_record;
mod entry_conversion;
mod read_record;
mod record_json_format;
mod record_writer;
mod redaction;

pub(crate) use build_record::RunEvidence;
pub use read_record::ReadError;
pub(crate) use record_json_format::HookPayload;
pub use record_json_format::{
    GrantEntry, HookEntry, Input, InvocationEntry, LimitsUsed, LogEntry, Output, Record,
};
pub(crate) use record_writer::RecordWriter;
pub use record_writer::{RecordConfig, RecordError};
