//! Renders a tracing event as a log line in JSON.

use std::fmt::{self, Write as _};

use hook_host::escape_unprintable_in_json;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::LoggedVmi;

/// The fields of the spans around an event, such as the number of the request.
pub(super) fn span_fields<S>(event: &Event<'_>, context: &Context<'_, S>) -> Fields
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let mut span_fields = Fields::default();
    for span in context.event_scope(event).into_iter().flatten() {
        if let Some(fields) = span.extensions().get::<Fields>() {
            span_fields.others.extend(fields.others.iter().cloned());
        }
    }
    span_fields
}

/// The field with the place in another program's source, such as libvirt's, whose line is passed on.
const POSITION: &str = "pos";

/// Renders a log line with its newline. Of the format's keys, an event's fields can replace [`POSITION`] alone. They win
/// over fields of the same name of the surrounding spans.
pub(super) fn render(event: &Event<'_>, spans: Fields, vmi: &LoggedVmi, now: Timestamp) -> Vec<u8> {
    let metadata = event.metadata();
    let mut fields = Fields::default();
    event.record(&mut fields);
    fields.others.extend(spans.others);
    let passed_on = fields.others.iter().find(|(key, _)| key == POSITION);
    let pos = match passed_on.and_then(|(_, pos)| pos.as_str()) {
        Some(pos) if !pos.is_empty() => pos.to_owned(),
        _ => position(metadata.file(), metadata.line()),
    };
    let mut line = line(level(metadata.level()), fields.message, pos, vmi, now);
    for (key, value) in fields.others {
        line.entry(key).or_insert(value);
    }
    encode(line)
}

/// The line that says how many lines were dropped, because nobody read them in time.
pub(super) fn render_dropped(count: u64, vmi: &LoggedVmi, now: Timestamp) -> Vec<u8> {
    let message = format!("{count} log lines were dropped: their reader does not keep up");
    let pos = position(Some(file!()), Some(line!()));
    encode(line("warning", message, pos, vmi, now))
}

fn line(
    level: &str,
    message: String,
    pos: String,
    vmi: &LoggedVmi,
    now: Timestamp,
) -> Map<String, Value> {
    let mut line = Map::new();
    line.insert("component".into(), "virt-launcher".into());
    line.insert("level".into(), level.into());
    line.insert("msg".into(), message.into());
    line.insert(POSITION.into(), pos.into());
    line.insert("timestamp".into(), format!("{now:.6}").into());
    if !vmi.name.is_empty() {
        line.insert("kind".into(), "VirtualMachineInstance".into());
        line.insert("name".into(), vmi.name.clone().into());
        line.insert("namespace".into(), vmi.namespace.clone().into());
        line.insert("uid".into(), vmi.uid.clone().into());
    }
    line
}

fn encode(line: Map<String, Value>) -> Vec<u8> {
    // Texts of guests, hooks and clients are in the line. A terminal obeys some characters that JSON does not escape.
    let mut line = escape_unprintable_in_json(&Value::Object(line).to_string());
    line.push('\n');
    line.into_bytes()
}

fn level(level: &Level) -> &'static str {
    match *level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// File and line such as `manager/command_driver.rs:40`, without the prefix that all files of the crate share.
fn position(file: Option<&str>, line: Option<u32>) -> String {
    let file = file.unwrap_or("unknown");
    let short = file.rsplit_once("/src/").map_or(file, |(_, short)| short);
    format!("{short}:{}", line.unwrap_or_default())
}

/// The fields of an event or a span.
#[derive(Default)]
pub(super) struct Fields {
    message: String,
    others: Vec<(String, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.others.push((field.name().to_owned(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            self.add(field, format!("{value:?}").into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.add(field, value.into());
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}
