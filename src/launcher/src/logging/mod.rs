//! The log: one JSON object a line on standard error, in KubeVirt's format, so that tools that collect and search
//! launcher logs keep working. No task waits for its reader.

mod json_line;
mod repeated_failures;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::{PanicHookInfo, set_hook};
use std::sync::OnceLock;
use std::time::Duration;

use stderr_lines::Lines;
use tracing::span::{Attributes, Id};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

pub(crate) use repeated_failures::RepeatedFailures;

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
        move |count| json_line::render_dropped(count, &vmi, jiff::Timestamp::now())
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

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        let spans = json_line::span_fields(event, &context);
        self.lines.push(json_line::render(
            event,
            spans,
            &self.vmi,
            jiff::Timestamp::now(),
        ));
    }
}

/// Stores a span's fields, for the lines of events in it.
fn store_span_fields<S>(attributes: &Attributes<'_>, id: &Id, context: &Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if let Some(span) = context.span(id) {
        let mut fields = json_line::Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
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
            line["pos"].as_str().unwrap().contains("logging/mod.rs:"),
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
        assert!(
            lines[1]["pos"]
                .as_str()
                .unwrap()
                .contains("logging/mod.rs:")
        );
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
}
