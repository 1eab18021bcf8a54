//! The metrics of each hook as one log line.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{HookCounts, HookMetrics};
use crate::printable::printable;

/// Maximum bytes of a name or version in a log line.
const MAX_NAME_BYTES: usize = 256;

impl HookMetrics {
    /// Writes one log line per hook with calls, outcomes, durations and compile time. `phase` is the phase of the VM:
    /// `started` or `ended`.
    pub fn log(&self, phase: &str) {
        let hooks = self.lock().clone();
        for (hook, counts) in &hooks {
            log_hook(hook, counts, phase);
        }
    }
}

fn log_hook(hook: &str, counts: &HookCounts, phase: &str) {
    let (mut outcomes, mut total, mut longest, mut changes) =
        (BTreeMap::new(), Duration::ZERO, Duration::ZERO, 0);
    for point in counts.points.values() {
        for (outcome, calls) in &point.outcomes {
            *outcomes.entry(*outcome).or_insert(0) += calls;
        }
        total += point.total;
        longest = longest.max(point.longest);
        changes += point.changes;
    }
    let called = counts.points.iter().filter(|(_, point)| point.calls() > 0);
    let by_point = called.map(|(point, counts)| format!("{point}={}", counts.calls()));
    let by_outcome = outcomes
        .iter()
        .map(|(name, calls)| format!("{name}={calls}"));
    tracing::info!(
        hook,
        name = printable(&counts.identity.name, MAX_NAME_BYTES),
        version = printable(&counts.identity.version, MAX_NAME_BYTES),
        digest = counts.identity.digest,
        phase,
        calls = outcomes.values().sum::<u64>(),
        hook_points = by_point.collect::<Vec<_>>().join(","),
        outcomes = by_outcome.collect::<Vec<_>>().join(","),
        changes,
        total_micros = micros(total),
        longest_micros = micros(longest),
        compile_micros = counts.compile_time.map(micros),
        "hook statistics"
    );
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
