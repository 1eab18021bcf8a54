//! Counts of hook calls, for Prometheus and for the launcher's log.
//!
//! The chain counts each call when it logs the call. The number of series is bounded: the hooks of a chain are fixed,
//! hooks of plugins come with the VMI and count towards [`MAX_HOOKS`], and hook points and outcomes are closed sets.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::hook::HookInfo;
use crate::printable::printable;
use crate::{HookIdentity, HookPoint, Outcome, Run};

/// Hooks beyond this number are counted together, under the name [`OTHER_HOOKS`].
const MAX_HOOKS: usize = 128;
const OTHER_HOOKS: &str = "other";
/// Upper bounds of the buckets of durations. A call of a module takes some milliseconds; its deadline is 2 s by default
/// and at most 15 s. The deadline of a sidecar is 60 s.
const BUCKET_BOUNDS: [Duration; 9] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(60),
];

/// The counts of all hooks since the collection. The chain and its front end share them.
#[derive(Debug, Default)]
pub struct HookMetrics(Mutex<BTreeMap<String, HookCounts>>);

/// The counts of one hook.
#[derive(Debug, Clone, Default)]
struct HookCounts {
    identity: HookIdentity,
    /// The duration of the module's compilation, if this process compiled it.
    compile_time: Option<Duration>,
    points: BTreeMap<HookPoint, PointCounts>,
}

/// The counts of one hook at one hook point.
#[derive(Debug, Clone, Default)]
struct PointCounts {
    /// Calls by outcome: `ok`, or the kind of the error.
    outcomes: BTreeMap<&'static str, u64>,
    /// Calls by duration: the number of each bucket, without the calls of smaller buckets.
    buckets: [u64; BUCKET_BOUNDS.len()],
    /// The sum of all durations.
    total: Duration,
    longest: Duration,
    /// Changes of the domain, cloud-init data, device or parameters that the hook returned.
    changes: u64,
}

impl HookMetrics {
    /// Adds a hook, with zero calls at each of its hook points.
    pub(crate) fn add(&self, info: &HookInfo) {
        let mut hooks = self.lock();
        let Some(counts) = entry(&mut hooks, &info.hook) else {
            return;
        };
        counts.identity = info.identity();
        counts.compile_time = info.compile_time;
        for subscription in &info.hook_points {
            counts.points.entry(subscription.point).or_default();
        }
    }

    /// Sets the compile time of a module that was compiled before the collection.
    pub fn set_compile_time(&self, hook: &str, took: Duration) {
        if let Some(counts) = self.lock().get_mut(hook) {
            counts.compile_time = Some(took);
        }
    }

    /// Counts a call.
    pub(crate) fn count(&self, info: &HookInfo, run: &Run) {
        let mut hooks = self.lock();
        if !hooks.contains_key(&info.hook) {
            drop(hooks);
            // Hooks of plugins are added at their first call.
            self.add(info);
            hooks = self.lock();
        }
        let name = match hooks.contains_key(&info.hook) {
            true => info.hook.as_str(),
            false => OTHER_HOOKS,
        };
        let counts = hooks.entry(name.to_owned()).or_default();
        let point = counts.points.entry(run.hook_point).or_default();
        point.count(&run.outcome, run.duration, run.changes.len());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, HookCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counts of a hook, which is added if necessary; `None` if there are too many hooks.
fn entry<'a>(
    hooks: &'a mut BTreeMap<String, HookCounts>,
    hook: &str,
) -> Option<&'a mut HookCounts> {
    if hooks.len() >= MAX_HOOKS && !hooks.contains_key(hook) {
        return None;
    }
    Some(hooks.entry(hook.to_owned()).or_default())
}

impl PointCounts {
    fn count(&mut self, outcome: &Outcome, duration: Duration, changes: usize) {
        *self.outcomes.entry(outcome.name()).or_default() += 1;
        if let Some(bucket) = BUCKET_BOUNDS.iter().position(|bound| duration <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.total += duration;
        self.longest = self.longest.max(duration);
        self.changes += changes as u64;
    }

    fn calls(&self) -> u64 {
        self.outcomes.values().sum()
    }
}

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

/// Maximum bytes of a label's value, without the note about cut bytes. Names and versions come from untrusted modules.
const MAX_LABEL_BYTES: usize = 128;

impl HookMetrics {
    /// The counts in Prometheus' text format 0.0.4. Label values are printable, escaped and at most about 150 bytes
    /// long.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let hooks = self.lock().clone();
        let mut text = PrometheusText::default();
        hook_infos(&mut text, &hooks);
        compile_times(&mut text, &hooks);
        calls(&mut text, &hooks);
        durations(&mut text, &hooks);
        changes(&mut text, &hooks);
        text.0
    }
}

fn hook_infos(text: &mut PrometheusText, hooks: &BTreeMap<String, HookCounts>) {
    text.family("virt_hook_info", "gauge", "A hook; always 1.");
    for (hook, counts) in hooks {
        let identity = &counts.identity;
        let labels = [
            ("hook", hook.as_str()),
            ("name", &identity.name),
            ("version", &identity.version),
            ("digest", &identity.digest),
        ];
        text.sample("virt_hook_info", &labels, 1);
    }
}

fn compile_times(text: &mut PrometheusText, hooks: &BTreeMap<String, HookCounts>) {
    const NAME: &str = "virt_hook_compile_seconds";
    text.family(
        NAME,
        "gauge",
        "Duration of the module's compilation; none for a module that was compiled before.",
    );
    for (hook, counts) in hooks {
        if let Some(compile_time) = counts.compile_time {
            text.sample(NAME, &[("hook", hook)], compile_time.as_secs_f64());
        }
    }
}

fn calls(text: &mut PrometheusText, hooks: &BTreeMap<String, HookCounts>) {
    const NAME: &str = "virt_hook_calls_total";
    text.family(
        NAME,
        "counter",
        "Calls by outcome: ok, or the kind of error.",
    );
    for (hook, point, counts) in points(hooks) {
        // The series of `ok` exists before the first call, so that rate() counts the first call too.
        let ok = counts.outcomes.get("ok").copied().unwrap_or_default();
        let failed = counts.outcomes.iter().filter(|(name, _)| **name != "ok");
        for (outcome, calls) in [(&"ok", &ok)].into_iter().chain(failed) {
            let labels = [
                ("hook", hook),
                ("hook_point", point.name()),
                ("outcome", outcome),
            ];
            text.sample(NAME, &labels, calls);
        }
    }
}

fn durations(text: &mut PrometheusText, hooks: &BTreeMap<String, HookCounts>) {
    const NAME: &str = "virt_hook_call_duration_seconds";
    text.family(
        NAME,
        "histogram",
        "Duration of calls, with the checks of what the hook returned.",
    );
    for (hook, point, counts) in points(hooks) {
        let labels = [("hook", hook), ("hook_point", point.name())];
        let mut cumulative = 0;
        for (bound, calls) in BUCKET_BOUNDS.iter().zip(counts.buckets) {
            cumulative += calls;
            text.bucket(NAME, labels, &bound.as_secs_f64().to_string(), cumulative);
        }
        text.bucket(NAME, labels, "+Inf", counts.calls());
        text.sample(&format!("{NAME}_sum"), &labels, counts.total.as_secs_f64());
        text.sample(&format!("{NAME}_count"), &labels, counts.calls());
    }
}

fn changes(text: &mut PrometheusText, hooks: &BTreeMap<String, HookCounts>) {
    const NAME: &str = "virt_hook_changes_total";
    text.family(NAME, "counter", "Changes that accepted calls returned.");
    for (hook, point, counts) in points(hooks) {
        let labels = [("hook", hook), ("hook_point", point.name())];
        text.sample(NAME, &labels, counts.changes);
    }
}

/// The counts of each hook at each of its hook points.
fn points(
    hooks: &BTreeMap<String, HookCounts>,
) -> impl Iterator<Item = (&str, HookPoint, &PointCounts)> {
    hooks.iter().flat_map(|(hook, counts)| {
        let points = counts.points.iter();
        points.map(move |(point, counts)| (hook.as_str(), *point, counts))
    })
}

/// Text in Prometheus' format. Writing to a string cannot fail, so the results of `writeln!` are ignored.
#[derive(Default)]
struct PrometheusText(String);

impl PrometheusText {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn bucket(&mut self, name: &str, labels: [(&str, &str); 2], bound: &str, calls: u64) {
        let [hook, point] = labels;
        self.sample(
            &format!("{name}_bucket"),
            &[hook, point, ("le", bound)],
            calls,
        );
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let _ = writeln!(self.0, "{name}{{{labels}}} {value}");
    }
}

/// The text of a label's value between its quotes. `printable` escapes control characters, line feeds included.
fn escape(value: &str) -> String {
    printable(value, MAX_LABEL_BYTES)
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hook::HookKind;
    use crate::{FailurePolicy, HookError, HookMetrics, Outcome};

    pub(super) fn info(hook: &str) -> HookInfo {
        HookInfo {
            hook: hook.to_owned(),
            name: "smbios \"x\"\n\\".to_owned(),
            version: "1.2.0".to_owned(),
            directory: hook.to_owned(),
            file: "hook.wasm".to_owned(),
            kind: HookKind::Wasm {
                digest: "ab".repeat(32),
            },
            hook_points: Vec::new(),
            uncalled_points: Vec::new(),
            is_final: false,
            compile_time: Some(Duration::from_millis(1500)),
            ready_after: Duration::ZERO,
        }
    }

    pub(super) fn run(info: &HookInfo, outcome: Outcome, millis: u64) -> Run {
        Run {
            hook: info.hook.clone(),
            identity: info.identity(),
            hook_point: HookPoint::OnDefineDomain,
            uncalled_points: info.uncalled_points.clone(),
            is_final: info.is_final,
            changes: Vec::new(),
            duration: Duration::from_millis(millis),
            peak_memory: 0,
            outcome,
            failure_policy: FailurePolicy::Fail,
            log: Vec::new(),
        }
    }

    #[test]
    fn hooks_beyond_the_limit_are_counted_together() {
        let metrics = HookMetrics::default();
        for number in 0..2 * MAX_HOOKS {
            let info = info(&format!("plugin/p[{number}]"));
            metrics.count(&info, &run(&info, Outcome::Ok, 1));
        }
        let hooks = metrics.lock();
        assert_eq!(hooks.len(), MAX_HOOKS + 1);
        let calls = |hook: &str| hooks[hook].points[&HookPoint::OnDefineDomain].calls();
        assert_eq!(calls("plugin/p[0]"), 1);
        assert_eq!(calls(OTHER_HOOKS), MAX_HOOKS as u64);
    }

    #[test]
    fn calls_are_counted_by_outcome_and_duration() {
        let metrics = HookMetrics::default();
        let info = info("smbios");
        metrics.add(&info);
        metrics.count(&info, &run(&info, Outcome::Ok, 3));
        metrics.count(&info, &run(&info, Outcome::Ok, 5));
        let late = HookError::Deadline {
            hook: "smbios".into(),
            point: HookPoint::OnDefineDomain,
            limit: Duration::from_secs(2),
        };
        metrics.count(&info, &run(&info, Outcome::Failed(late), 90_000));
        let text = metrics.to_prometheus();
        let labels = "hook=\"smbios\",hook_point=\"OnDefineDomain\"";
        for line in [
            format!("virt_hook_calls_total{{{labels},outcome=\"ok\"}} 2"),
            format!("virt_hook_calls_total{{{labels},outcome=\"deadline\"}} 1"),
            format!("virt_hook_call_duration_seconds_bucket{{{labels},le=\"0.001\"}} 0"),
            format!("virt_hook_call_duration_seconds_bucket{{{labels},le=\"0.005\"}} 2"),
            format!("virt_hook_call_duration_seconds_bucket{{{labels},le=\"60\"}} 2"),
            format!("virt_hook_call_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("virt_hook_call_duration_seconds_sum{{{labels}}} 90.008"),
            format!("virt_hook_call_duration_seconds_count{{{labels}}} 3"),
            "virt_hook_compile_seconds{hook=\"smbios\"} 1.5".to_owned(),
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line} is not in {text}"
            );
        }
    }

    #[test]
    fn label_values_are_escaped_and_cut() {
        assert_eq!(escape("a\"b\\c"), "a\\\"b\\\\c");
        assert_eq!(escape("two\nlines\u{1b}"), "two\\\\nlines\\\\u{1b}");
        let long = escape(&"x".repeat(5000));
        assert!(long.len() < 200, "{long}");
        let metrics = HookMetrics::default();
        metrics.add(&info("smbios"));
        let text = metrics.to_prometheus();
        assert!(text.contains(r#"name="smbios \"x\"\\n\\""#), "{text}");
    }
}
