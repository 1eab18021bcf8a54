//! One event as one line.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::About;

/// A log line, its end included. Keys that the format owns cannot be taken by an event's fields.
pub(super) fn render(event: &Event<'_>, about: &About, now: Timestamp) -> Vec<u8> {
    let metadata = event.metadata();
    let mut fields = Fields::default();
    event.record(&mut fields);
    let mut line = Map::new();
    line.insert("component".into(), "virt-launcher".into());
    line.insert("level".into(), level(metadata.level()).into());
    line.insert("msg".into(), fields.message.into());
    line.insert(
        "pos".into(),
        position(metadata.file(), metadata.line()).into(),
    );
    line.insert("timestamp".into(), format!("{now:.6}").into());
    if !about.name.is_empty() {
        line.insert("kind".into(), "VirtualMachineInstance".into());
        line.insert("name".into(), about.name.clone().into());
        line.insert("namespace".into(), about.namespace.clone().into());
        line.insert("uid".into(), about.uid.clone().into());
    }
    for (key, value) in fields.others {
        line.entry(key).or_insert(value);
    }
    let mut bytes = Value::Object(line).to_string().into_bytes();
    bytes.push(b'\n');
    bytes
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

/// `manager/driver.rs:40`: the file without what every file of the project has in common.
fn position(file: Option<&str>, line: Option<u32>) -> String {
    let file = file.unwrap_or("unknown");
    let short = file.rsplit_once("/src/").map_or(file, |(_, short)| short);
    format!("{short}:{}", line.unwrap_or_default())
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(String, Value)>,
}

impl Fields {
    fn keep(&mut self, field: &Field, value: Value) {
        self.others.push((field.name().to_owned(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            self.keep(field, format!("{value:?}").into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.keep(field, value.into());
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, value.into());
    }
}
