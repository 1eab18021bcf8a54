//! The maximum downtime while memory is sent: a first value, and steps up to the limit.

use std::time::Duration;

use kubevirt_api::migration_options::DowntimeTuning;

/// KubeVirt's defaults.
const FIRST_MS: u64 = 150;
const STEPS: u64 = 7;
const FIRST_ITERATION: u64 = 3;
const COOLDOWN: Duration = Duration::from_secs(10);

/// The maximum downtimes of a migration, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct DowntimeRamp {
    first: u64,
    limit: u64,
    step: u64,
    /// The iteration over the guest's memory before which there is no step.
    first_iteration: u64,
    /// The time between two steps.
    cooldown: Duration,
    /// The value that QEMU has, and when it was set, since the beginning.
    set: Option<(u64, Duration)>,
}

impl DowntimeRamp {
    /// One value, without steps.
    pub(super) fn constant(value: u64) -> Self {
        Self {
            first: value,
            limit: value,
            step: 0,
            first_iteration: 0,
            cooldown: Duration::ZERO,
            set: None,
        }
    }

    /// The steps that the cluster's configuration asks for, up to `limit`.
    pub(super) fn tuned(tuning: DowntimeTuning, limit: u64) -> Self {
        let positive = |value: Option<i32>, default| {
            value.map_or(default, |value| u64::try_from(value).unwrap_or(0).max(1))
        };
        let natural = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        let first = natural(tuning.initial_ms).unwrap_or(FIRST_MS).min(limit);
        Self {
            first,
            limit,
            step: ((limit - first) / positive(tuning.steps, STEPS)).max(1),
            first_iteration: natural(tuning.start_after_iteration).unwrap_or(FIRST_ITERATION),
            cooldown: Duration::from_secs(positive(tuning.cooldown_seconds, COOLDOWN.as_secs())),
            set: None,
        }
    }

    /// The value to set now, if any.
    pub(super) fn due(&self, elapsed: Duration, iteration: Option<u64>) -> Option<u64> {
        let Some((value, set_at)) = self.set else {
            return Some(self.first);
        };
        let is_due = value < self.limit
            && iteration? >= self.first_iteration
            && elapsed.saturating_sub(set_at) >= self.cooldown;
        is_due.then(|| value.saturating_add(self.step).min(self.limit))
    }

    /// QEMU has this value now.
    pub(super) fn is_set(&mut self, value: u64, elapsed: Duration) {
        self.set = Some((value, elapsed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that are set in samples of one second, if each is set at once.
    fn values(mut ramp: DowntimeRamp, iteration: impl Fn(u64) -> Option<u64>) -> Vec<(u64, u64)> {
        let mut values = Vec::new();
        for second in 0..200 {
            let elapsed = Duration::from_secs(second);
            if let Some(value) = ramp.due(elapsed, iteration(second)) {
                ramp.is_set(value, elapsed);
                values.push((second, value));
            }
        }
        values
    }

    #[test]
    fn defaults_are_seven_steps_from_150_ms_after_the_third_iteration() {
        let ramp = DowntimeRamp::tuned(DowntimeTuning::default(), 900);
        let expected = [
            (0, 150),
            (20, 257),
            (30, 364),
            (40, 471),
            (50, 578),
            (60, 685),
            (70, 792),
            (80, 899),
            (90, 900),
        ];
        assert_eq!(values(ramp, |second| Some(second / 10 + 1)), expected);
        assert_eq!(values(ramp, |_| None), [(0, 150)]);
    }

    #[test]
    fn sent_values_replace_defaults_and_stay_in_their_bounds() {
        let tuning = DowntimeTuning {
            initial_ms: Some(100),
            steps: Some(2),
            start_after_iteration: Some(0),
            cooldown_seconds: Some(5),
        };
        let ramp = DowntimeRamp::tuned(tuning, 300);
        assert_eq!(values(ramp, |_| Some(0)), [(0, 100), (5, 200), (10, 300)]);
        let invalid = DowntimeTuning {
            initial_ms: Some(5000),
            steps: Some(-3),
            start_after_iteration: Some(-1),
            cooldown_seconds: Some(i32::MIN),
        };
        assert_eq!(
            values(DowntimeRamp::tuned(invalid, 300), |_| Some(9)),
            [(0, 300)]
        );
    }

    #[test]
    fn a_hooks_value_is_set_once() {
        assert_eq!(values(DowntimeRamp::constant(50), |_| Some(9)), [(0, 50)]);
    }
}
