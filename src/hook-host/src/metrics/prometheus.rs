//! The counts in Prometheus' text format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use super::{BUCKET_BOUNDS, HookCounts, HookMetrics, PointCounts};
use crate::HookPoint;
use crate::printable::printable;

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

    use super::super::tests::{info, run};
    use super::*;
    use crate::{HookError, HookMetrics, Outcome};

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
