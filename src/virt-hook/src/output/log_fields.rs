//! The fields of a log line, for people: `--verbose`.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::Plain;

/// Writes the message, then `name=value` for each field, texts as they are. tracing itself writes texts as Rust
/// would, with quotes and escapes.
pub(crate) struct LogFields;

impl<'writer> FormatFields<'writer> for LogFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = LogLine {
            writer,
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut line);
        line.result
    }
}

struct LogLine<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl LogLine<'_> {
    fn write(&mut self, name: &str, value: fmt::Arguments<'_>) {
        if self.result.is_err() {
            return;
        }
        let gap = if std::mem::take(&mut self.is_first) {
            ""
        } else {
            " "
        };
        self.result = match name {
            "message" => write!(self.writer, "{gap}{value}"),
            _ => write!(self.writer, "{gap}{name}={value}"),
        };
    }
}

impl Visit for LogLine<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field.name(), format_args!("{}", Plain(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field.name(), format_args!("{value:?}"));
    }
}
