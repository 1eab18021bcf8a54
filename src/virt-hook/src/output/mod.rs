//! How results reach people and programs: one place for all verbs.
//!
//! A verb gives a [`Report`]. For people it becomes text, with colours only on a terminal; with
//! `--json` it becomes one JSON document, failures too:
//! `{"verb", "ok", "result"}` or `{"verb", "ok": false, "error": {"kind", "message"}}`.

mod changes;
mod plain;
mod run;
mod style;

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::{Failure, REFUSED};

pub(crate) use changes::{ChangeReport, changes, lines, sides};
pub(crate) use plain::Plain;
pub(crate) use run::{RunReport, cost};
pub(crate) use style::{Colour, Style};

/// What a verb has to tell.
pub(crate) trait Report: Serialize {
    /// For people; the last line's end may be left out.
    fn text(&self, style: Style) -> String;

    /// Why what was asked is not so; none when it is.
    fn complaint(&self) -> Option<String> {
        None
    }
}

/// Where a verb's report goes.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) verb: &'static str,
    pub(crate) json: bool,
    pub(crate) style: Style,
}

impl Screen {
    /// Shows what a verb came to, and says how the program ends.
    pub(crate) fn show(&self, result: Result<impl Report, Failure>) -> ExitCode {
        let shown = result.and_then(|report| self.report(&report));
        shown.unwrap_or_else(|failure| self.failure(&failure))
    }

    fn report(&self, report: &impl Report) -> Result<ExitCode, Failure> {
        let complaint = report.complaint();
        if self.json {
            let ok = complaint.is_none();
            let result = serde_json::to_value(report).map_err(Failure::machine)?;
            print_json(&json!({"verb": self.verb, "ok": ok, "result": result}))?;
        } else {
            print(&report.text(self.style))?;
        }
        let Some(complaint) = complaint else {
            return Ok(ExitCode::SUCCESS);
        };
        say(&complaint);
        Ok(ExitCode::from(REFUSED))
    }

    /// Shows why there is no result.
    pub(crate) fn failure(&self, failure: &Failure) -> ExitCode {
        let message = failure.line();
        if self.json {
            let error = json!({"kind": failure.kind(), "message": message});
            // Standard error says it too, whatever becomes of this.
            let _ = print_json(&json!({"verb": self.verb, "ok": false, "error": error}));
        }
        say(&message);
        ExitCode::from(failure.code())
    }
}

/// One line on standard error.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "virt-hook: {line}");
}

fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}"))
}

/// Writes a result, with a line's end. A reader that has seen enough is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut text = text.trim_end().to_owned();
    if !text.is_empty() {
        text.push('\n');
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::machine(
            anyhow::Error::new(error).context("writing to standard output"),
        )),
        _ => Ok(()),
    }
}
