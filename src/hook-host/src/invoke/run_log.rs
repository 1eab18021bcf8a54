//! Logs a run: the hook's own log lines, and a summary.

use domain_xml::host::Change;
use serde_json::{Value, json};

use crate::printable::printable;
use crate::{FailurePolicy, Invocation, LogLevel, LogLine, Outcome, Overlap, Run};

/// Maximum number of changes in a log line.
const MAX_CHANGES: usize = 64;
/// Maximum number of log lines about nodes that several hooks changed.
const MAX_OVERLAPS: usize = 64;
/// Maximum length of one value in bytes.
const MAX_VALUE_BYTES: usize = 512;

/// Logs a run. `withholds` leaves the hook's own lines out, because they may contain secret data.
pub(super) fn log_run(invocation: &Invocation, run: &Run, withholds: bool) {
    if withholds {
        log_withheld_lines(run);
    } else {
        run.log.iter().for_each(|line| log_line(run, line));
    }
    if !run.uncalled_points.is_empty() {
        tracing::warn!(
            hook = run.hook,
            hook_point = run.hook_point.name(),
            uncalled_points = run.uncalled_points.join(","),
            "the hook lists hook points at which plugins are not called"
        );
    }
    let micros = u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX);
    let changes = changes(&run.changes).to_string();
    let (namespace, name, uid) = (&invocation.namespace, &invocation.name, &invocation.uid);
    match &run.outcome {
        Outcome::Ok => tracing::info!(
            hook = run.hook,
            hook_point = run.hook_point.name(),
            is_final = run.is_final,
            outcome = if run.changes.is_empty() {
                "unchanged"
            } else {
                "changed"
            },
            changes,
            micros,
            peak_memory = run.peak_memory,
            kept = run.failure_policy != FailurePolicy::DryRun,
            namespace,
            name,
            uid,
            "hook ran"
        ),
        Outcome::Failed(error) => tracing::error!(
            hook = run.hook,
            hook_point = run.hook_point.name(),
            is_final = run.is_final,
            outcome = error.kind(),
            changes,
            micros,
            peak_memory = run.peak_memory,
            reason = %error,
            failure_policy = ?run.failure_policy,
            namespace,
            name,
            uid,
            "hook did not do its work"
        ),
    }
}

/// Warns of nodes that several hooks changed; the last change wins. The number of lines is limited, because two hooks
/// can overlap in every node.
pub(super) fn log_overlaps(overlaps: &[Overlap]) {
    for overlap in overlaps.iter().take(MAX_OVERLAPS) {
        tracing::warn!(
            path = shorten(&overlap.path),
            hooks = overlap.hooks.join(","),
            "several hooks wrote the same node; the last one's word holds"
        );
    }
    if overlaps.len() > MAX_OVERLAPS {
        tracing::warn!(
            more = overlaps.len() - MAX_OVERLAPS,
            "several hooks wrote further nodes, too"
        );
    }
}

/// Warns that the search for nodes that several hooks changed was not completed.
pub(super) fn log_unfinished_search(reason: &str) {
    tracing::warn!(
        reason,
        "whether several hooks wrote the same node was not searched to the end"
    );
}

/// Logs the number of the hook's lines instead of the lines.
fn log_withheld_lines(run: &Run) {
    if !run.log.is_empty() {
        tracing::info!(
            hook = run.hook,
            hook_point = run.hook_point.name(),
            lines = run.log.len(),
            "log lines are withheld, since they may contain cloud-init data"
        );
    }
}

fn log_line(run: &Run, line: &LogLine) {
    let (hook, hook_point, message) = (&run.hook, run.hook_point.name(), &line.message);
    match line.level {
        LogLevel::Debug => tracing::debug!(hook, hook_point, "{message}"),
        LogLevel::Info => tracing::info!(hook, hook_point, "{message}"),
        LogLevel::Warn => tracing::warn!(hook, hook_point, "{message}"),
        LogLevel::Error => tracing::error!(hook, hook_point, "{message}"),
    }
}

fn changes(changes: &[Change]) -> Value {
    let mut list: Vec<Value> = changes.iter().take(MAX_CHANGES).map(change).collect();
    if changes.len() > MAX_CHANGES {
        list.push(json!({ "more": changes.len() - MAX_CHANGES }));
    }
    Value::Array(list)
}

fn change(change: &Change) -> Value {
    let kind = format!("{:?}", change.kind).to_lowercase();
    let value = |text: &Option<String>| text.as_deref().map(shorten);
    json!({
        "path": shorten(&change.path),
        "kind": kind,
        "before": value(&change.before),
        "after": value(&change.after),
    })
}

fn shorten(text: &str) -> String {
    printable(text, MAX_VALUE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_lines_about_overlaps_is_limited() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(log.reopen().unwrap());
        let all: Vec<Overlap> = (0..100_000)
            .map(|n| Overlap {
                path: format!("/domain/x[{n}]"),
                hooks: vec!["a".into(), "b".into()],
            })
            .collect();
        tracing::subscriber::with_default(subscriber.finish(), || log_overlaps(&all));
        let text = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(text.lines().count(), MAX_OVERLAPS + 1, "{text}");
        assert!(
            text.contains("/domain/x[63]") && text.contains("more=99936"),
            "{text}"
        );
    }
}
