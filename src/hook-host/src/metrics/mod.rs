//! Counts of hook calls, for Prometheus and for the launcher's log.
//!
//! The chain counts each call when it logs the call. The number of series is bounded: the hooks of a chain are fixed,
//! hooks of plugins come with the VMI and count towards [`MAX_HOOKS`], and hook points and outcomes are closed sets.

mod log_summary;
mod prometheus;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::hook::HookInfo;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailurePolicy;
    use crate::hook::HookKind;

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
}
