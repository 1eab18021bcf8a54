//! The output of all verbs, as text and as JSON.
//!
//! A verb returns a [`Report`]. It is printed as text, with colours only on a terminal; with
//! `--json` it is printed as one JSON document, as failures are:
//! `{"verb", "ok", "result"}` or `{"verb", "ok": false, "error": {"kind", "message"}}`, with `warnings` and `notes`
//! if there are any.

mod change_list;
mod run_report;

use std::fmt::{Debug, Display, Formatter, Write as _};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use anstyle::{AnsiColor, Effects};
use hook_host::{escape_unprintable_in_json, is_printable, printable};
use serde::Serialize;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use crate::verb_failure::{Failure, REFUSED};
pub(crate) use change_list::{ChangeReport, unified_diff, write_before_and_after, write_changes};
pub(crate) use run_report::{RunReport, cost_text};

/// Maximum number of bytes of a line on standard error.
const MAX_LINE: usize = 64 << 10;

/// The warnings of this run, for the JSON document.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The notes of this run, for the JSON document.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Whether warnings and notes are left out of standard error.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// The result of a verb.
pub(crate) trait Report: Serialize {
    /// The text for people; the last line feed is optional.
    fn text(&self, style: Style) -> String;

    /// The reason why the result is negative; `None` if it is positive.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// The exit code of a negative result.
    fn negative_code(&self) -> u8 {
        REFUSED
    }
}

/// Prints a verb's report.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) verb: &'static str,
    pub(crate) json: bool,
    pub(crate) style: Style,
}

impl Screen {
    /// Prints a verb's result and returns the exit code.
    pub(crate) fn show(&self, result: Result<impl Report, Failure>) -> ExitCode {
        let code = result.and_then(|report| self.report(&report));
        code.unwrap_or_else(|failure| self.failure(&failure))
    }

    fn report(&self, report: &impl Report) -> Result<ExitCode, Failure> {
        let complaint = report.complaint();
        if complaint.is_none() {
            print_notes();
        }
        if self.json {
            let ok = complaint.is_none();
            let result = serde_json::to_value(report).map_err(Failure::internal)?;
            print_json(json!({"verb": self.verb, "ok": ok, "result": result}))?;
        } else {
            print(&report.text(self.style))?;
        }
        let Some(complaint) = complaint else {
            return Ok(ExitCode::SUCCESS);
        };
        print_error_line(&complaint);
        Ok(ExitCode::from(report.negative_code()))
    }

    /// Prints an error and returns the exit code.
    pub(crate) fn failure(&self, failure: &Failure) -> ExitCode {
        let message = failure.line();
        if self.json {
            let error = json!({"kind": failure.kind(), "message": message});
            // The message also goes to standard error, so a write error does not matter.
            let _ = print_json(json!({"verb": self.verb, "ok": false, "error": error}));
        }
        print_error_line(&message);
        ExitCode::from(failure.code())
    }
}

/// Prints a warning once, as a line on standard error and in the JSON document.
pub(crate) fn warn(text: &str) {
    let line = text.replace('\n', " ");
    let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if !warnings.contains(&line) {
        if !IS_QUIET.load(Ordering::Relaxed) {
            print_error_line(&format!("warning: {line}"));
        }
        warnings.push(line);
    }
}

fn print_notes() {
    if IS_QUIET.load(Ordering::Relaxed) {
        return;
    }
    let notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    for note in notes.iter() {
        print_error_line(&format!("note: {note}"));
    }
}

/// Leaves warnings and notes out of standard error. The JSON document has them.
pub(crate) fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Remembers a note, once: nothing is wrong. It is a line on standard error if the verb succeeds, and in the JSON document.
pub(crate) fn note(text: &str) {
    let line = text.replace('\n', " ");
    let mut notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    if !notes.contains(&line) {
        notes.push(line);
    }
}

/// The number of warnings so far.
pub(crate) fn warning_count() -> usize {
    WARNINGS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .len()
}

/// Prints a line on standard error.
fn print_error_line(line: &str) {
    // Parts of the line may come from a module, a record or a VMI.
    let _ = writeln!(io::stderr(), "virt-hook: {}", printable(line, MAX_LINE));
}

fn print_json(mut document: Value) -> Result<(), Failure> {
    // As on standard error, a failure has no notes.
    let mut messages_by_field = vec![("warnings", &WARNINGS)];
    if document["ok"] == true {
        messages_by_field.push(("notes", &NOTES));
    }
    for (field, messages) in messages_by_field {
        let messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
        if !messages.is_empty() {
            document[field] = json!(*messages);
        }
    }
    print(&escape_unprintable_in_json(&format!("{document:#}")))
}

/// Prints a result with a line feed. A closed pipe is not a failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut text = text.trim_end().to_owned();
    if !text.is_empty() {
        text.push('\n');
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::internal(
            anyhow::Error::new(error).context("writing to standard output"),
        )),
        _ => Ok(()),
    }
}

/// When to colour standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Colour {
    /// Only on a terminal, and unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Whether text for people is coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// The style of standard output. `NO_COLOR` counts if it is not empty, as <https://no-color.org> says.
    pub(crate) fn for_stdout(colour: Colour) -> Self {
        let is_disabled = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => io::stdout().is_terminal() && !is_disabled(),
        };
        Self { colour }
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default(), text)
    }

    pub(crate) fn doubtful(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(anstyle::Style::new().effects(Effects::BOLD), text)
    }

    fn paint(self, style: anstyle::Style, text: &str) -> String {
        if self.colour {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// Maximum number of characters of a value that are shown.
const MAX_VALUE: usize = 2000;

/// Displays untrusted text with control, invisible and bidirectional characters escaped, and cut off at [`MAX_VALUE`].
pub(crate) struct TerminalEscaped<'a>(pub(crate) &'a str);

impl Display for TerminalEscaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars().take(MAX_VALUE) {
            if !is_printable(character) && character != '\t' {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        if self.0.chars().nth(MAX_VALUE).is_some() {
            write!(f, " ... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_the_option_are_respected() {
        assert_eq!(Style::default().bad("x"), "x");
        assert_eq!(
            Style::for_stdout(Colour::Always).bad("x"),
            "\u{1b}[31mx\u{1b}[0m"
        );
        assert_eq!(Style::for_stdout(Colour::Never), Style::default());
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(TerminalEscaped("a\u{1b}[2Jb").to_string(), "a\\u{1b}[2Jb");
        let reversed = TerminalEscaped("a\u{202e}b\u{200b}").to_string();
        assert_eq!(reversed, "a\\u{202e}b\\u{200b}");
        let long = "x".repeat(MAX_VALUE + 1);
        assert!(
            TerminalEscaped(&long)
                .to_string()
                .ends_with("x ... (2001 bytes)")
        );
    }

    #[test]
    fn escaped_json_is_the_same_document() {
        let text = "a\u{9b}31m \u{85}\u{2028}\u{202e}\u{e0041} größer\n\u{1b}\u{7f}";
        let document = serde_json::json!({ text: [text] });
        let escaped = escape_unprintable_in_json(&format!("{document:#}"));
        assert!(escaped.chars().all(|c| c == '\n' || is_printable(c)));
        let read: Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read, document);
    }
}
