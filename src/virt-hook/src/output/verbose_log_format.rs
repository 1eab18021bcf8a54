//! The format of virt-hook's own log under `--verbose`.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::TerminalEscaped;

/// Writes the message, then `name=value` for each field, without the quotes and Rust escapes that tracing's default
/// format adds to texts.
pub(crate) struct UnquotedFields;

impl<'writer> FormatFields<'writer> for UnquotedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut fields_writer = FieldWriter {
            writer,
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut fields_writer);
        fields_writer.result
    }
}

struct FieldWriter<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl FieldWriter<'_> {
    fn write(&mut self, name: &str, value: fmt::Arguments<'_>) {
        if self.result.is_err() {
            return;
        }
        let separator = if std::mem::take(&mut self.is_first) {
            ""
        } else {
            " "
        };
        self.result = match name {
            "message" => write!(self.writer, "{separator}{value}"),
            _ => write!(self.writer, "{separator}{name}={value}"),
        };
    }
}

impl Visit for FieldWriter<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field.name(), format_args!("{}", TerminalEscaped(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field.name(), format_args!("{value:?}"));
    }
}
