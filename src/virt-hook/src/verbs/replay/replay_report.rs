//! The comparison of a replay with its record, as text.

use std::time::Duration;

use domain_xml::host::{Change, ChangeKind};
use hook_host::record::{LogEntry, Record};
use hook_host::replay::ReplayResult;
use hook_host::{LogLevel, LogLine, Outcome};

use crate::output::{Style, TerminalEscaped, cost_text, write_before_and_after};

/// The number of characters of a digest that are shown, enough to tell modules apart.
const DIGEST_LENGTH: usize = 12;

/// The text of the whole comparison.
pub(super) fn render(style: Style, record: &Record, replayed: &ReplayResult) -> String {
    let mut text = format!("recorded: {}\n", recorded_run(record));
    text += &format!("replayed: {}\n", replayed_run(replayed));
    text += verdict(replayed);
    text.push('\n');
    let difference = &replayed.difference;
    if let Some((before, after)) = &difference.outcome {
        write_before_and_after(&mut text, style, "outcome", Some(before), Some(after));
    }
    for change in &difference.domain {
        write_change(&mut text, style, change);
    }
    for name in &difference.documents {
        text += &format!("  document {}\n", TerminalEscaped(name));
    }
    if difference.log {
        write_logs(&mut text, style, &record.log, &replayed.run.log);
    }
    for note in notes(record, replayed) {
        text += &format!("note: {note}\n");
    }
    text
}

fn recorded_run(record: &Record) -> String {
    let hook = &record.hook;
    let kind = match (&hook.digest, &hook.sidecar) {
        (Some(digest), _) => format!("sha256 {}", TerminalEscaped(&shortened(digest))),
        (None, Some(version)) => format!("gRPC sidecar {}", TerminalEscaped(version)),
        (None, None) => "gRPC sidecar".to_owned(),
    };
    format!(
        "{} ({kind}) at {} for {}/{} ({}): {}",
        TerminalEscaped(&hook.hook),
        TerminalEscaped(&record.hook_point),
        TerminalEscaped(&record.invocation.namespace),
        TerminalEscaped(&record.invocation.name),
        TerminalEscaped(&record.invocation.reason),
        outcome_and_cost(
            &record.outcome,
            record.changes.len(),
            Duration::from_micros(record.duration_micros),
            record.peak_memory
        )
    )
}

fn replayed_run(replayed: &ReplayResult) -> String {
    let run = &replayed.run;
    outcome_and_cost(
        outcome(replayed),
        run.changes.len(),
        run.duration,
        run.peak_memory,
    )
}

pub(super) fn outcome(replayed: &ReplayResult) -> &'static str {
    match &replayed.run.outcome {
        Outcome::Ok => "ok",
        Outcome::Failed(error) => error.kind(),
    }
}

fn outcome_and_cost(outcome: &str, changes: usize, duration: Duration, memory: usize) -> String {
    format!(
        "{}, {}",
        TerminalEscaped(outcome),
        cost_text(changes, duration, memory)
    )
}

fn verdict(replayed: &ReplayResult) -> &'static str {
    let difference = &replayed.difference;
    if difference.is_none() {
        "same: byte for byte"
    } else if difference.is_none_in_effect() {
        "same: in effect"
    } else {
        "different: - recorded, + replayed"
    }
}

fn write_change(text: &mut String, style: Style, change: &Change) {
    let difference = match change.kind {
        ChangeKind::Inserted => "only replayed",
        ChangeKind::Removed => "only recorded",
        ChangeKind::Edited => "other value",
        ChangeKind::Moved => "other place",
    };
    let title = format!("{}: {difference}", TerminalEscaped(&change.path));
    write_before_and_after(
        text,
        style,
        &title,
        change.before.as_deref(),
        change.after.as_deref(),
    );
}

/// Appends both logs from the first different line on.
fn write_logs(text: &mut String, style: Style, before: &[LogEntry], after: &[LogLine]) {
    let before: Vec<String> = before.iter().map(format_entry).collect();
    let after: Vec<String> = after.iter().map(format_line).collect();
    let equal = before.iter().zip(&after).take_while(|(a, b)| a == b);
    let from = equal.count();
    write_before_and_after(
        text,
        style,
        "log (not compared)",
        Some(&before[from..].join("\n")),
        Some(&after[from..].join("\n")),
    );
}

fn format_entry(line: &LogEntry) -> String {
    format!("{}: {}", line.level, line.message)
}

fn format_line(line: &LogLine) -> String {
    let level = match line.level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    };
    format!("{level}: {}", line.message)
}

/// Circumstances that may explain a difference, or its absence.
pub(super) fn notes(record: &Record, replayed: &ReplayResult) -> Vec<String> {
    let difference = &replayed.difference;
    let mut notes = Vec::new();
    if difference.bytes && difference.is_none_in_effect() {
        notes.push("the XML differs only in notation".to_owned());
    }
    for input in &replayed.withheld {
        notes.push(format!(
            "{} was withheld from the record; the hook saw a placeholder",
            TerminalEscaped(input)
        ));
    }
    for dir in &record.dirs {
        notes.push(format!(
            "it may read {} of this machine; the record does not hold what was there",
            TerminalEscaped(&dir.display().to_string())
        ));
    }
    notes
}

fn shortened(digest: &str) -> String {
    digest.chars().take(DIGEST_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_shown_from_the_first_difference() {
        let line = |message: &str| LogLine {
            level: LogLevel::Info,
            message: message.to_owned(),
        };
        let entry = |message: &str| LogEntry {
            level: "info".to_owned(),
            message: message.to_owned(),
        };
        let mut text = String::new();
        write_logs(
            &mut text,
            Style::default(),
            &[entry("a"), entry("b")],
            &[line("a"), line("c"), line("d")],
        );
        assert!(
            text.ends_with("- info: b\n    + info: c\n    + info: d\n"),
            "{text}"
        );
    }
}
