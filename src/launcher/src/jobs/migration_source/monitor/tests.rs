//! Time limits, what counts as progress, and actions that are repeated until they succeed.

mod forced_completion;
mod progress;
mod properties;
mod recorded_runs;
mod stalls;

use kubevirt_api::migration_options::{MigrationOptions, StallDetectorOptions};
use libvirt::JobType;
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn options() -> MigrationOptions {
    MigrationOptions {
        progress_timeout: 150,
        completion_timeout_per_gib: 150,
        max_downtime_ms: 900,
        ..MigrationOptions::default()
    }
}

fn disruptive(limit: i64, allow_post_copy: bool) -> MigrationOptions {
    MigrationOptions {
        completion_timeout_per_gib: limit,
        allow_workload_disruption: true,
        allow_post_copy,
        ..options()
    }
}

fn stats(elapsed: Duration, remaining: u64) -> JobStats {
    JobStats {
        job_type: JobType::Unbounded,
        time_elapsed: u64::try_from(elapsed.as_millis()).ok(),
        data_remaining: Some(remaining),
        memory_iteration: Some(1),
        memory_bps: Some(100 * MIB),
        ..JobStats::default()
    }
}

fn at(millis: u64, remaining: impl Into<Option<u64>>) -> Sample {
    let elapsed = Duration::from_millis(millis);
    Sample {
        elapsed,
        stats: remaining.into().map(|remaining| stats(elapsed, remaining)),
        is_paused: false,
        begins_iteration: false,
    }
}

/// A monitor, and the log of its actions with the milliseconds at which they were requested.
struct TestJob {
    monitor: Monitor,
    log: Vec<(u64, Action)>,
}

impl TestJob {
    fn new(options: &MigrationOptions, has_host_devices: bool) -> TestJob {
        TestJob {
            monitor: Monitor::new(MigrationLimits::new(options, 1, has_host_devices)),
            log: Vec::new(),
        }
    }

    fn sample(&mut self, sample: Sample) -> &mut TestJob {
        self.sample_with(sample, true)
    }

    fn sample_with(&mut self, sample: Sample, succeeded: bool) -> &mut TestJob {
        let elapsed = sample.elapsed;
        for action in self.monitor.observe(Input::Sample(sample)) {
            let millis = u64::try_from(elapsed.as_millis()).unwrap();
            self.log.push((millis, action));
            self.monitor.observe(Input::Outcome {
                action,
                elapsed,
                succeeded,
            });
        }
        self
    }

    /// Feeds samples every 400 ms until this time.
    fn until(&mut self, millis: u64, remaining: impl Fn(u64) -> Option<u64>) -> &mut TestJob {
        for now in (0..=millis).step_by(400) {
            self.sample(at(now, remaining(now)));
        }
        self
    }
}

/// As recorded with KubeVirt's launcher, for a migration of 272 MiB with 5 MiB/s.
#[test]
fn slow_migration_is_not_aborted_while_data_are_transferred() {
    let mut job = TestJob::new(&options(), false);
    for (millis, remaining) in [(400, 272), (4012, 253), (8030, 227)] {
        job.sample(at(millis, remaining * MIB));
    }
    assert_eq!(job.log, []);
    assert_eq!(job.monitor.mode(), MigrationMode::PreCopy);
    assert_eq!(
        job.monitor.observe(Input::Cancel),
        [Action::Abort(AbortCause::Cancelled)]
    );
    assert_eq!(job.monitor.observe(Input::Cancel), []);
}

/// As recorded with KubeVirt's launcher: with a limit of 1 s, the abort comes with the first sample after 2 full
/// seconds.
#[test]
fn limit_counts_full_seconds() {
    let one_second = MigrationOptions {
        completion_timeout_per_gib: 1,
        ..options()
    };
    let mut job = TestJob::new(&one_second, false);
    job.until(4000, |now| Some(300 * MIB - now));
    assert_eq!(job.log, [(2000, Action::Abort(AbortCause::Limit(1)))]);
}

#[test]
fn downtime_of_a_hook_is_repeated_until_it_is_set_and_not_before_the_transfer() {
    let mut job = TestJob::new(&options(), false);
    let limits = MigrationLimits::new(&disruptive(2, false), 1, false);
    job.monitor = Monitor::new(limits.with_hooked_downtime(Some(50)));
    let mut zeros = at(0, 0);
    if let Some(stats) = &mut zeros.stats {
        stats.data_total = Some(0);
    }
    job.sample(zeros);
    assert_eq!(job.log, [], "the target is prepared");
    let first = Action::SetDowntime(50);
    job.sample_with(at(400, 300), false);
    job.sample(at(800, 200)).sample(at(1200, 100));
    assert_eq!(job.log, [(400, first), (800, first)], "until it succeeds");
    assert_eq!(job.monitor.mode(), MigrationMode::PreCopy);
    job.sample(at(3000, 50));
    let last = job.log.last();
    assert_eq!(
        last,
        Some(&(3000, Action::Suspend)),
        "the limit is the same"
    );
}

#[test]
fn preparation_counts_as_time_without_progress() {
    let mut job = TestJob::new(&options(), false);
    let unlimited = MigrationOptions {
        completion_timeout_per_gib: 0,
        ..options()
    };
    job.monitor = Monitor::new(MigrationLimits::new(&unlimited, 1, false));
    job.until(160_000, |_| None);
    assert_eq!(
        job.log,
        [(151_200, Action::Abort(AbortCause::NoProgress(151)))]
    );
    let never = MigrationOptions {
        progress_timeout: 0,
        ..unlimited
    };
    let mut job = TestJob::new(&never, false);
    assert_eq!(job.until(900_000, |_| None).log, []);
}

/// libvirt's first answer, while the target is prepared, is `processed=0 remaining=0 total=0`.
#[test]
fn zero_before_the_transfer_is_not_remaining_memory() {
    let mut job = TestJob::new(&options(), false);
    let mut zeros = at(3, 0);
    if let Some(stats) = &mut zeros.stats {
        stats.data_total = Some(0);
    }
    job.sample(zeros);
    let unlimited = MigrationOptions {
        completion_timeout_per_gib: 0,
        ..options()
    };
    job.monitor = Monitor::new(MigrationLimits::new(&unlimited, 1, false));
    job.sample(zeros);
    job.until(400_000, |now| Some(500_000 - now));
    assert_eq!(job.log, [], "every sample is progress");
}

#[test]
fn oscillating_remaining_memory_is_not_progress() {
    let unlimited = MigrationOptions {
        completion_timeout_per_gib: 0,
        progress_timeout: 10,
        ..options()
    };
    let mut job = TestJob::new(&unlimited, false);
    // The remainder alternates between 20 and 10 bytes.
    job.until(20_000, |now| Some(if now % 800 == 0 { 20 } else { 10 }));
    assert_eq!(
        job.log,
        [(11_600, Action::Abort(AbortCause::NoProgress(11)))]
    );
}

#[test]
fn failed_abort_is_repeated() {
    let mut job = TestJob::new(&options(), false);
    job.sample_with(at(152_000, 1), false);
    job.sample_with(at(152_400, 1), false);
    assert_eq!(job.log.len(), 2);
    assert!(
        job.log
            .iter()
            .all(|(_, action)| matches!(action, Action::Abort(_)))
    );
}

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
