//! The runs of hooks, parsed from the launcher's log.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// A line of the launcher's log about a run of a hook.
pub(crate) struct HookRun {
    pub(crate) hook: String,
    pub(crate) hook_point: String,
    outcome: String,
    micros: u64,
    changes: Vec<Value>,
}

impl HookRun {
    /// Parses a log entry; `None` if it is not about a hook's run.
    pub(crate) fn read(entry: &Value) -> Option<HookRun> {
        let text = |name: &str| Some(entry[name].as_str()?.to_owned());
        Some(HookRun {
            hook: text("hook")?,
            hook_point: text("hook_point")?,
            outcome: text("outcome")?,
            micros: entry["micros"].as_u64()?,
            changes: changes(&entry["changes"]),
        })
    }

    /// Whether one of the run's changes contains this text.
    pub(crate) fn has_change_with(&self, text: &str) -> bool {
        self.changes
            .iter()
            .any(|change| change.to_string().contains(text))
    }

    /// Whether the run changed anything.
    pub(crate) fn changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The run and its changes, as text.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!(
            "{} at {}: {}, {} us",
            self.hook, self.hook_point, self.outcome, self.micros
        );
        for change in &self.changes {
            let _ = write!(text, "\n  {}", describe_change(change));
        }
        text
    }
}

/// All runs of hooks in the launcher's log.
pub(crate) fn runs_in_log(log: &Path) -> Vec<HookRun> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .filter_map(|line| HookRun::read(&serde_json::from_str(line).ok()?))
        .collect()
}

/// The changes in a log field, which is JSON in a string.
fn changes(field: &Value) -> Vec<Value> {
    let parsed = field
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok());
    match parsed.as_ref().unwrap_or(field) {
        Value::Array(items) => items.clone(),
        Value::Null => Vec::new(),
        other => vec![other.clone()],
    }
}

fn describe_change(change: &Value) -> String {
    let text = |name: &str| change[name].as_str();
    let path = text("path").unwrap_or_default();
    match (text("before"), text("after")) {
        _ if path.is_empty() => change.to_string(),
        (Some(before), Some(after)) => format!("~ {path}: {before:?} -> {after:?}"),
        (None, Some(after)) => format!("+ {path}: {after}"),
        (Some(before), None) => format!("- {path}: {before}"),
        (None, None) => format!("~ {path} {}", text("kind").unwrap_or("changed")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::HookRun;

    #[test]
    fn a_run_in_the_log_is_described_with_its_diff() {
        let changes = json!([
            { "path": "/domain/sysinfo/baseBoard", "kind": "inserted", "after": "<baseBoard/>" },
            { "path": "/domain/vcpu", "kind": "edited", "before": "1", "after": "2" },
        ]);
        let entry = json!({
            "msg": "hook ran", "hook": "smbios", "hook_point": "OnDefineDomain", "outcome": "changed",
            "micros": 190, "changes": changes.to_string(),
        });
        let run = HookRun::read(&entry).expect("a run");
        assert!(
            run.changed() && run.has_change_with("<baseBoard/>") && !run.has_change_with("Edward")
        );
        let description = run.describe();
        assert!(
            description.starts_with("smbios at OnDefineDomain: changed, 190 us\n"),
            "{description}"
        );
        assert!(
            description.contains("+ /domain/sysinfo/baseBoard: <baseBoard/>"),
            "{description}"
        );
        assert!(
            description.contains(r#"~ /domain/vcpu: "1" -> "2""#),
            "{description}"
        );
    }

    #[test]
    fn other_log_lines_are_ignored() {
        let log_entry = json!({ "msg": "hello", "hook": "smbios", "hook_point": "OnDefineDomain" });
        assert!(HookRun::read(&log_entry).is_none());
        assert!(HookRun::read(&json!({ "msg": "ready" })).is_none());
    }
}
