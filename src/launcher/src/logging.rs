//! The log: one JSON object a line on standard error, in KubeVirt's format, so that tools that collect and search
//! launcher logs keep working. No task waits for its reader.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::panic::{PanicHookInfo, set_hook};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use hook_host::escape_unprintable_in_json;
use jiff::Timestamp;
use serde_json::{Map, Value};
use stderr_lines::Lines;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The VirtualMachineInstance that the log lines are about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedVmi {
    /// The name; empty when it is not known.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The UID.
    pub uid: String,
}

/// How long the end of the process waits for the reader of its last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts logging for the process. `verbosity` is the value of `-v`. A second call has no effect. From here on a panic is
/// logged too.
///
/// # Errors
/// The system has no thread left.
pub fn start(verbosity: u8, vmi: LoggedVmi) -> io::Result<()> {
    let about_dropped = {
        let vmi = vmi.clone();
        move |count| render_dropped(count, &vmi, Timestamp::now())
    };
    let lines = Lines::to_stderr(about_dropped)?;
    let layer = JsonLines {
        verbosity,
        vmi,
        lines: lines.clone(),
    };
    let subscriber = tracing_subscriber::registry().with(layer);
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let _ = STARTED.set((std::time::Instant::now(), lines));
        set_hook(Box::new(log_panic));
    }
    Ok(())
}

/// Waits for the last lines, at most for a second.
pub fn flush() {
    if let Some((_, lines)) = STARTED.get() {
        lines.flush(FLUSH_TIMEOUT);
    }
}

/// The time since logging started; measures the start-up.
pub fn since_start() -> Duration {
    let started = STARTED.get();
    started.map(|(at, _)| at.elapsed()).unwrap_or_default()
}

static STARTED: OnceLock<(std::time::Instant, Lines)> = OnceLock::new();

/// The process may end at once after a panic, so its line is awaited.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    let backtrace = is_captured.then(|| backtrace.to_string());
    tracing::error!(backtrace, "{panic}");
    flush();
}

/// The crates whose lines have the launcher's own levels. All others are libraries, of which less is logged.
const OUR_CRATES: [&str; 7] = [
    "bounded_listener",
    "virt_launcher",
    "hook_host",
    "libvirt",
    "domain",
    "domain_xml",
    "proto",
];

struct JsonLines {
    verbosity: u8,
    vmi: LoggedVmi,
    lines: Lines,
}

impl JsonLines {
    fn is_logged(&self, metadata: &Metadata<'_>) -> bool {
        let krate = metadata.target().split("::").next().unwrap_or_default();
        let max_level = match (OUR_CRATES.contains(&krate), self.verbosity) {
            (true, 0..=2) => Level::INFO,
            (true, 3..=4) => Level::DEBUG,
            (true, _) => Level::TRACE,
            (false, 0..=7) => Level::WARN,
            (false, _) => Level::DEBUG,
        };
        *metadata.level() <= max_level
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.is_logged(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        store_span_fields(attributes, id, &context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let spans = span_fields(event, &context);
        self.lines
            .push(render_line(event, spans, &self.vmi, Timestamp::now()));
    }
}

/// Stores a span's fields, for the lines of events in it.
fn store_span_fields<S>(attributes: &Attributes<'_>, id: &Id, context: &Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if let Some(span) = context.span(id) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }
}

/// The fields of the spans around an event, such as the number of the request.
fn span_fields<S>(event: &Event<'_>, context: &Context<'_, S>) -> Fields
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
fn render_line(event: &Event<'_>, spans: Fields, vmi: &LoggedVmi, now: Timestamp) -> Vec<u8> {
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
fn render_dropped(count: u64, vmi: &LoggedVmi, now: Timestamp) -> Vec<u8> {
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
struct Fields {
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

// Failures that a peer's retries repeat: virt-handler sends a request that failed again every few seconds. The reason is
// logged once; after that a short line counts.

/// The latest failure of each request, and how often it came in a row.
#[derive(Debug, Default)]
pub(crate) struct RepeatedFailures(Mutex<HashMap<&'static str, Failure>>);

#[derive(Debug)]
struct Failure {
    reason: String,
    times: u64,
}

impl RepeatedFailures {
    /// Logs that `what` failed: with the reason if it differs from the latest.
    pub(crate) fn log(&self, what: &'static str, reason: &str) {
        match self.count(what, reason) {
            1 => tracing::error!(reason, "{what}: failed"),
            times => tracing::error!("{what}: failed {times} times, for the same reason"),
        }
    }

    /// `what` has not failed any more, so that its next failure is logged with the reason.
    pub(crate) fn forget(&self, what: &'static str) {
        self.lock().remove(what);
    }

    /// How often `what` has failed in a row for this reason, this time included.
    pub(crate) fn count(&self, what: &'static str, reason: &str) -> u64 {
        let mut failures = self.lock();
        let failure = failures.entry(what).or_insert_with(|| Failure {
            reason: reason.to_owned(),
            times: 0,
        });
        if failure.reason != reason {
            *failure = Failure {
                reason: reason.to_owned(),
                times: 0,
            };
        }
        failure.times = failure.times.saturating_add(1);
        failure.times
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct CapturedLog(Arc<Mutex<Vec<u8>>>);

    impl Write for CapturedLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn text(verbosity: u8, vmi: LoggedVmi, act: impl FnOnce()) -> String {
        let captured = CapturedLog::default();
        let lines = Lines::to(captured.clone(), |_| Vec::new()).unwrap();
        let layer = JsonLines {
            verbosity,
            vmi,
            lines: lines.clone(),
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
        assert!(lines.flush(Duration::from_secs(10)));
        let bytes = captured.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn lines(verbosity: u8, vmi: LoggedVmi, act: impl FnOnce()) -> Vec<Value> {
        text(verbosity, vmi, act)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn log_line_has_kubevirts_keys() {
        let vmi = LoggedVmi {
            name: "vm1".into(),
            namespace: "default".into(),
            uid: "1234".into(),
        };
        let lines = lines(2, vmi, || {
            tracing::info!(subcomponent = "libvirt", micros = 12u64, "it \"runs\"\n")
        });
        let line = &lines[0];
        assert_eq!(line["component"], "virt-launcher");
        assert_eq!(line["level"], "info");
        assert_eq!(line["msg"], "it \"runs\"\n");
        assert_eq!(line["subcomponent"], "libvirt");
        assert_eq!(line["micros"], 12);
        assert_eq!(line["kind"], "VirtualMachineInstance");
        assert_eq!(
            (&line["name"], &line["namespace"], &line["uid"]),
            (&"vm1".into(), &"default".into(), &"1234".into())
        );
        assert!(
            line["pos"].as_str().unwrap().contains("logging.rs:"),
            "{line}"
        );
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn line_of_libvirt_has_libvirts_place() {
        let lines = lines(2, LoggedVmi::default(), || {
            tracing::error!(
                subcomponent = "libvirt",
                pos = "qemuMonitorIO:530",
                "End of file"
            );
            tracing::error!(subcomponent = "libvirt", pos = "", "without a place");
            tracing::error!(level = "no", "other keys of the format stay");
        });
        assert_eq!(lines[0]["pos"], "qemuMonitorIO:530");
        assert!(lines[1]["pos"].as_str().unwrap().contains("logging.rs:"));
        assert_eq!(lines[2]["level"], "error");
    }

    #[test]
    fn text_that_terminals_obey_is_escaped() {
        let hostile =
            "hi \u{1b}[2J \u{1b}]0;owned\u{7}\r\n\u{202e}rtl \u{9b}31m \u{85}\u{2066}\u{2028}";
        let text = text(2, LoggedVmi::default(), || {
            tracing::warn!(reason = hostile, other = %hostile, "{hostile}");
        });
        let line = text.strip_suffix('\n').unwrap();
        assert!(line.chars().all(hook_host::is_printable), "{line:?}");
        let read: Value = serde_json::from_str(line).unwrap();
        for key in ["msg", "reason", "other"] {
            assert_eq!(read[key], hostile);
        }
    }

    #[test]
    fn levels_and_missing_objects_are_encoded() {
        let lines = lines(2, LoggedVmi::default(), || {
            tracing::debug!("quiet");
            tracing::warn!("careful");
            tracing::error!(reason = %"because", "broken");
        });
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["level"], "warning");
        assert!(lines[0].get("kind").is_none());
        assert_eq!(lines[1]["reason"], "because");
    }

    #[test]
    fn log_line_has_the_number_of_its_request() {
        let lines = lines(2, LoggedVmi::default(), || {
            tracing::info_span!("request", request = 7u64).in_scope(|| {
                tracing::info!("within");
                tracing::info!(request = 8u64, "its own field counts");
            });
            tracing::info!("outside");
        });
        assert_eq!(lines[0]["request"], 7);
        assert_eq!(lines[1]["request"], 8);
        assert!(lines[2].get("request").is_none());
    }

    #[test]
    fn higher_verbosity_logs_more() {
        let count = |verbosity| {
            lines(verbosity, LoggedVmi::default(), || {
                tracing::debug!("d");
                tracing::trace!("t");
                tracing::debug!(target: "h2::codec", "library");
            })
            .len()
        };
        assert_eq!((count(2), count(3), count(5), count(9)), (0, 1, 2, 3));
    }

    /// The lines that `work` logs.
    fn logged(work: impl FnOnce(&RepeatedFailures)) -> Vec<String> {
        let log = tempfile::NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(log.reopen().unwrap());
        tracing::subscriber::with_default(subscriber.finish(), || {
            work(&RepeatedFailures::default());
        });
        let log = std::fs::read_to_string(log.path()).unwrap();
        log.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn reason_is_logged_once_until_it_changes_or_the_request_succeeds() {
        let lines = logged(|failures| {
            for reason in ["no disk", "no disk", "no disk", "no network"] {
                failures.log("sync", reason);
            }
            failures.log("pause", "no network");
            failures.forget("sync");
            failures.log("sync", "no network");
        });
        assert_eq!(
            lines,
            [
                "ERROR sync: failed reason=\"no disk\"",
                "ERROR sync: failed 2 times, for the same reason",
                "ERROR sync: failed 3 times, for the same reason",
                "ERROR sync: failed reason=\"no network\"",
                "ERROR pause: failed reason=\"no network\"",
                "ERROR sync: failed reason=\"no network\"",
            ]
        );
    }
}
