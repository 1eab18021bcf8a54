//! The output of all verbs, as text and as JSON.
//!
//! A verb returns a [`Report`]. It is printed as text, with colours only on a terminal; with
//! `--json` it is printed as one JSON document, as failures are:
//! `{"verb", "ok", "result"}` or `{"verb", "ok": false, "error": {"kind", "message"}}`, with `warnings` and `notes`
//! if there are any.

mod change_list;
mod run_report;
mod terminal_colors;
mod terminal_escape;
mod verbose_log_format;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use hook_host::{escape_unprintable_in_json, printable};
use serde::Serialize;
use serde_json::{Value, json};

use crate::verb_failure::{Failure, REFUSED};

pub(crate) use change_list::{ChangeReport, unified_diff, write_before_and_after, write_changes};
pub(crate) use run_report::{RunReport, cost_text};
pub(crate) use terminal_colors::{Colour, Style};
pub(crate) use terminal_escape::TerminalEscaped;
pub(crate) use verbose_log_format::UnquotedFields;

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
