//! One run of one hook, as text and as JSON.

use std::time::Duration;

use hook_host::record::Record;
use serde::Serialize;

use super::{ChangeReport, Style, TerminalEscaped, write_changes};

/// The report of one run of one hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunReport {
    /// The hook's name in errors and logs.
    pub(crate) hook: String,
    /// KubeVirt's name of the hook point.
    pub(crate) hook_point: String,
    /// The line of the operator's policy that makes it a final hook, if one does.
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    pub(crate) final_rule: Option<String>,
    /// `ok`, `veto`, `failed`, `trap`, `deadline`, `denied`, `bad-output`, ...
    pub(crate) outcome: String,
    /// The reason why the outcome is not `ok`.
    pub(crate) reason: Option<String>,
    /// `Fail`, `Ignore` or `DryRun`.
    pub(crate) failure_policy: String,
    /// The hook's changes; those of cloud-init data have the names of the documents.
    pub(crate) changes: Vec<ChangeReport>,
    /// The lines that the hook logged.
    pub(crate) log: Vec<LogLineReport>,
    /// The duration of the run.
    pub(crate) duration_micros: u64,
    /// The deadline of the run.
    pub(crate) deadline_millis: u64,
    /// Peak of the module's memories in bytes.
    pub(crate) peak_memory: usize,
    /// The limit of the module's memories in bytes.
    pub(crate) memory_limit: usize,
}

/// A line of a hook's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LogLineReport {
    /// `debug`, `info`, `warn`, `error`.
    pub(crate) level: String,
    /// The text of the line.
    pub(crate) message: String,
}

impl RunReport {
    /// Whether the outcome is `ok`.
    pub(crate) fn is_ok(&self) -> bool {
        self.outcome == "ok"
    }

    /// A failure or veto that changes nothing, because `hook.yaml` has the failure policy Ignore.
    pub(crate) fn ignored_failure(&self) -> Option<String> {
        let is_ignored = !self.is_ok() && self.failure_policy == "Ignore";
        is_ignored.then(|| {
            let reason = self.reason.as_deref().unwrap_or(&self.outcome);
            format!("{} at {}: {reason}", self.hook, self.hook_point)
        })
    }

    /// A line such as `smbios at OnDefineDomain: ok, 1 change, 800 us, 1216 KiB`, followed by the details.
    pub(crate) fn text(&self, style: Style) -> String {
        let outcome = TerminalEscaped(&self.outcome).to_string();
        let outcome = match (self.is_ok(), self.outcome == "veto") {
            (true, _) => style.good(&outcome),
            (_, true) => style.doubtful(&outcome),
            _ => style.bad(&outcome),
        };
        let cost = cost_text(
            self.changes.len(),
            Duration::from_micros(self.duration_micros),
            self.peak_memory,
        );
        let name = style.strong(&TerminalEscaped(&self.hook).to_string());
        // The effect of the failure policy, if it is not that of `Fail`.
        let effect = match (self.failure_policy.as_str(), self.is_ok()) {
            ("DryRun", _) => " (DryRun: discarded)",
            ("Ignore", false) => " (Ignore)",
            _ => "",
        };
        let last = match self.final_rule {
            Some(_) => " (final)",
            None => "",
        };
        let mut text = format!(
            "{name}{last} at {}: {outcome}{effect}, {cost}\n",
            self.hook_point
        );
        if let Some(reason) = &self.reason {
            text += &format!("  {}\n", TerminalEscaped(reason));
        }
        if self.outcome == "deadline" {
            text += "  an endless loop?\n";
        }
        write_changes(&mut text, style, &self.changes);
        for line in &self.log {
            text += &format!("  {}: {}\n", line.level, TerminalEscaped(&line.message));
        }
        text
    }
}

/// A text such as `1 change, 800 us, 1216 KiB`; the memory is left out if it is not known.
pub(crate) fn cost_text(changes: usize, duration: Duration, memory: usize) -> String {
    let plural = if changes == 1 { "" } else { "s" };
    let mut text = format!("{changes} change{plural}, {} us", duration.as_micros());
    if memory > 0 {
        text += &format!(", {} KiB", memory >> 10);
    }
    text
}

impl From<&Record> for RunReport {
    fn from(record: &Record) -> Self {
        let changes = record.changes.iter();
        let changes = changes.map(|(path, kind, before, after)| ChangeReport {
            path: path.clone(),
            kind: kind.clone(),
            before: before.clone(),
            after: after.clone(),
        });
        let log = record.log.iter().map(|line| LogLineReport {
            level: line.level.clone(),
            message: line.message.clone(),
        });
        Self {
            hook: record.hook.hook.clone(),
            hook_point: record.hook_point.clone(),
            final_rule: record.hook.final_rule.clone(),
            outcome: record.outcome.clone(),
            reason: record.reason.clone(),
            failure_policy: record.failure_policy.clone(),
            changes: changes.collect(),
            log: log.collect(),
            duration_micros: record.duration_micros,
            deadline_millis: record.limits.deadline_ms,
            peak_memory: record.peak_memory,
            memory_limit: record.limits.memory,
        }
    }
}
