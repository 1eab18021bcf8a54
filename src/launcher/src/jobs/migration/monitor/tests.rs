#![allow(clippy::unwrap_used)]

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

/// A monitor whose actions all succeed, and a log of them.
struct Job {
    monitor: Monitor,
    log: Vec<(u64, Action)>,
}

impl Job {
    fn new(options: &MigrationOptions, has_host_devices: bool) -> Job {
        Job {
            monitor: Monitor::new(Terms::new(options, 1, has_host_devices)),
            log: Vec::new(),
        }
    }

    fn sample(&mut self, sample: Sample) -> &mut Job {
        self.sample_with(sample, true)
    }

    fn sample_with(&mut self, sample: Sample, succeeded: bool) -> &mut Job {
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

    /// Samples every 400 ms.
    fn until(&mut self, millis: u64, remaining: impl Fn(u64) -> Option<u64>) -> &mut Job {
        for now in (0..=millis).step_by(400) {
            self.sample(at(now, remaining(now)));
        }
        self
    }
}

/// The recorded migration of 272 MiB with 5 MiB/s: nothing is done while data are transferred.
#[test]
fn recorded_slow_migration_is_left_alone() {
    let mut job = Job::new(&options(), false);
    for (millis, remaining) in [(400, 272), (4012, 253), (8030, 227)] {
        job.sample(at(millis, remaining * MIB));
    }
    assert_eq!(job.log, []);
    assert_eq!(job.monitor.mode(), Mode::PreCopy);
    assert_eq!(
        job.monitor.observe(Input::Cancel),
        [Action::Abort(Cause::Cancelled)]
    );
    assert_eq!(job.monitor.observe(Input::Cancel), []);
}

/// The recorded limit of 1 s: the abort comes with the first sample after whole 2 s.
#[test]
fn limit_counts_whole_seconds() {
    let one_second = MigrationOptions {
        completion_timeout_per_gib: 1,
        ..options()
    };
    let mut job = Job::new(&one_second, false);
    job.until(4000, |now| Some(300 * MIB - now));
    assert_eq!(job.log, [(2000, Action::Abort(Cause::Limit(1)))]);
}

/// The recorded pause of the guest at 2 s, with the abort at twice the limit.
#[test]
fn disrupted_migration_suspends_once_and_is_aborted_at_twice_the_limit() {
    let mut job = Job::new(&disruptive(1, false), false);
    job.until(6000, |now| Some(300 * MIB - now));
    let expected = [
        (2000, Action::Suspend),
        (3200, Action::Abort(Cause::Limit(2))),
    ];
    assert_eq!(job.log, expected);
    assert_eq!(job.monitor.mode(), Mode::Paused);
}

#[test]
fn post_copy_is_never_aborted_by_a_rule() {
    let mut job = Job::new(&disruptive(1, true), false);
    job.until(400_000, |_| Some(1));
    assert_eq!(job.log, [(2000, Action::StartPostCopy)]);
    assert_eq!(job.monitor.mode(), Mode::PostCopy);
}

#[test]
fn guest_with_host_devices_is_stopped_by_its_downtime() {
    for (limit, downtime) in [(3, 6000), (5000, LONGEST_DOWNTIME)] {
        let mut job = Job::new(&disruptive(limit, true), true);
        let late = u64::try_from(limit).unwrap() * 1000 + 1000;
        job.sample(at(late, 1)).sample(at(late + 1, 0));
        assert_eq!(job.log, [(late, Action::SetMaxDowntime(downtime))]);
        assert_eq!(job.monitor.mode(), Mode::Paused);
    }
}

#[test]
fn preparation_counts_as_time_without_progress() {
    let mut job = Job::new(&options(), false);
    let unlimited = MigrationOptions {
        completion_timeout_per_gib: 0,
        ..options()
    };
    job.monitor = Monitor::new(Terms::new(&unlimited, 1, false));
    job.until(160_000, |_| None);
    assert_eq!(job.log, [(151_200, Action::Abort(Cause::NoProgress(151)))]);
    let never = MigrationOptions {
        progress_timeout: 0,
        ..unlimited
    };
    let mut job = Job::new(&never, false);
    assert_eq!(job.until(900_000, |_| None).log, []);
}

/// libvirt's first answer, while the target is prepared, is `processed=0 remaining=0 total=0`.
#[test]
fn zeros_before_the_transfer_are_no_remainder() {
    let mut job = Job::new(&options(), false);
    let mut zeros = at(3, 0);
    if let Some(stats) = &mut zeros.stats {
        stats.data_total = Some(0);
    }
    job.sample(zeros);
    let unlimited = MigrationOptions {
        completion_timeout_per_gib: 0,
        ..options()
    };
    job.monitor = Monitor::new(Terms::new(&unlimited, 1, false));
    job.sample(zeros);
    job.until(400_000, |now| Some(500_000 - now));
    assert_eq!(job.log, [], "every sample is progress");
}

#[test]
fn remainder_that_only_swings_is_no_progress() {
    let unlimited = MigrationOptions {
        completion_timeout_per_gib: 0,
        progress_timeout: 10,
        ..options()
    };
    let mut job = Job::new(&unlimited, false);
    // Two samples, the second of which is smaller than the first, again and again.
    job.until(20_000, |now| Some(if now % 800 == 0 { 20 } else { 10 }));
    assert_eq!(job.log, [(11_600, Action::Abort(Cause::NoProgress(11)))]);
}

#[test]
fn failed_force_is_repeated_and_does_not_hide_a_stuck_migration() {
    let mut job = Job::new(
        &MigrationOptions {
            progress_timeout: 2,
            ..disruptive(1, true)
        },
        false,
    );
    for now in (0..=4000).step_by(400) {
        job.sample_with(at(now, None), false);
    }
    let actions: Vec<_> = job.log.iter().map(|(_, action)| *action).collect();
    assert_eq!(actions[..3], [Action::StartPostCopy; 3]);
    assert_eq!(actions[3], Action::Abort(Cause::NoProgress(3)));
    assert_eq!(job.monitor.mode(), Mode::PreCopy);
}

#[test]
fn failed_abort_is_repeated() {
    let mut job = Job::new(&options(), false);
    job.sample_with(at(152_000, 1), false);
    job.sample_with(at(152_400, 1), false);
    assert_eq!(job.log.len(), 2);
    assert!(
        job.log
            .iter()
            .all(|(_, action)| matches!(action, Action::Abort(_)))
    );
}

fn stalling(options: MigrationOptions) -> MigrationOptions {
    MigrationOptions {
        stall_detector_options: Some(StallDetectorOptions {
            stall_margin: 0.04,
            stall_progress_timeout: 40,
            switchover_timeout: 60,
            ewma_alpha: 0.4,
            precopy_possible_factor: 1.5,
            patience_window_decay_factor: 0.5,
            search_local_minima: true,
            completion_timeout_factor: 2.0,
        }),
        ..options
    }
}

/// An iteration each 10 s, with a sample of the bandwidth before it.
fn iterate(job: &mut Job, remainders: &[u64]) {
    for (index, remaining) in (1..).zip(remainders) {
        let millis = index * 10_000;
        job.sample(at(millis - 400, remaining * MIB));
        job.sample(Sample {
            begins_iteration: true,
            ..at(millis, remaining * MIB)
        });
    }
}

#[test]
fn downtime_is_limited_first() {
    let mut job = Job::new(&stalling(options()), false);
    job.sample_with(at(400, None), false);
    job.sample(at(800, None)).sample(at(1200, None));
    let limit = Action::SetMaxDowntime(300);
    assert_eq!(job.log, [(400, limit), (800, limit)]);
}

#[test]
fn converging_migration_is_left_alone() {
    let mut job = Job::new(&stalling(options()), false);
    iterate(
        &mut job,
        &[4000, 3500, 3000, 2500, 2000, 1500, 1000, 500, 100],
    );
    assert_eq!(job.log.len(), 1, "{:?}", job.log);
}

#[test]
fn stall_completes_at_a_good_moment_or_aborts() {
    // 4000 MiB at 100 MiB/s take 40 s, 120 MiB 1.2 s.
    let large = [4000, 4100, 4000, 4200, 4100, 4300];
    let small = [120, 130, 125, 130, 128, 121];
    let decide = |options: MigrationOptions, remainders: &[u64]| {
        let mut job = Job::new(&stalling(options), false);
        iterate(&mut job, remainders);
        job.log[1..].first().copied()
    };
    let aborted = decide(options(), &large);
    assert_eq!(
        aborted,
        Some((50_000, Action::Abort(Cause::Downtime(41_000))))
    );
    let soft = decide(options(), &small);
    assert_eq!(
        soft,
        Some((60_000, Action::SetMaxDowntime(900))),
        "1.2 s is tolerated for 0.9 s"
    );
    let hard = decide(disruptive(150, false), &large);
    assert_eq!(
        hard,
        Some((50_000, Action::SetMaxDowntime(LONGEST_DOWNTIME)))
    );
    let post_copy = decide(disruptive(150, true), &large);
    assert_eq!(post_copy, Some((50_000, Action::StartPostCopy)));
}

#[test]
fn switchover_has_a_deadline_of_its_own() {
    let mut job = Job::new(&stalling(disruptive(150, false)), false);
    iterate(&mut job, &[4000, 4100, 4000, 4200, 4100]);
    let begun = job.log.last().unwrap().0;
    assert_eq!(begun, 50_000);
    job.sample(at(110_999, 4000 * MIB));
    assert_eq!(job.log.last().unwrap().0, begun);
    job.sample(at(111_000, 4000 * MIB));
    assert_eq!(
        job.log.last(),
        Some(&(111_000, Action::Abort(Cause::Limit(110))))
    );
}

#[test]
fn overdue_migration_is_completed_only_while_data_flow() {
    let mut job = Job::new(&stalling(disruptive(20, false)), false);
    job.sample(at(400, None)).sample(at(21_000, None));
    assert_eq!(
        job.log[1],
        (21_000, Action::Abort(Cause::Limit(20))),
        "no bandwidth is known"
    );
    let mut job = Job::new(&stalling(disruptive(20, false)), false);
    iterate(&mut job, &[1000]);
    job.sample(at(21_000, 1000 * MIB));
    assert_eq!(
        job.log[1],
        (21_000, Action::SetMaxDowntime(LONGEST_DOWNTIME))
    );
}

#[test]
fn pause_by_qemu_is_recorded_with_a_stall_detector() {
    let mut job = Job::new(&stalling(options()), false);
    job.sample(Sample {
        is_paused: true,
        ..at(400, 1)
    });
    assert_eq!(job.monitor.mode(), Mode::Paused);
}

prop_compose! {
    fn any_options()(limit in 0i64..8, progress in 0i64..8, disruption: bool, post_copy: bool, stall: bool)
        -> MigrationOptions
    {
        let options = MigrationOptions {
            completion_timeout_per_gib: limit,
            progress_timeout: progress,
            allow_workload_disruption: disruption,
            allow_post_copy: post_copy,
            max_downtime_ms: 900,
            ..MigrationOptions::default()
        };
        if stall { stalling(options) } else { options }
    }
}

prop_compose! {
    fn any_samples()(samples in prop::collection::vec(
        (1u64..20_000, prop::option::of(0u64..5000), any::<bool>(), any::<bool>(), any::<bool>()), 1..60))
        -> Vec<(Sample, bool)>
    {
        let mut now = 0;
        samples.into_iter().map(|(step, remaining, is_paused, begins_iteration, succeeds)| {
            now += step;
            let sample = at(now, remaining.map(|mib| mib * MIB));
            (Sample { is_paused, begins_iteration, ..sample }, succeeds)
        }).collect()
    }
}

proptest! {
    /// Whatever happens, an abort is asked for once, and never by a rule after the guest has left.
    #[test]
    fn abort_is_asked_for_once(
        options in any_options(), samples in any_samples(), host_devices: bool)
    {
        let mut job = Job::new(&options, host_devices);
        for (sample, succeeds) in samples {
            let before = (job.monitor.mode(), job.monitor.is_aborting, job.log.len());
            job.sample_with(sample, succeeds);
            let aborts = job.log[before.2..].iter().filter(|(_, action)| matches!(action, Action::Abort(_)));
            let aborts = aborts.count();
            prop_assert!(aborts <= 1);
            prop_assert!(aborts == 0 || (!before.1 && before.0 != Mode::PostCopy));
            if job.monitor.mode() == Mode::PostCopy {
                prop_assert!(options.allow_post_copy && !host_devices);
            }
        }
        let suspended = job.log.iter().any(|(_, action)| *action == Action::Suspend);
        prop_assert!(!suspended || options.allow_workload_disruption);
    }

    /// A limit always ends the migration: with the same samples long enough, it is aborted or continues on the target.
    #[test]
    fn limit_ends_every_migration(limit in 1i64..5, disruption: bool, post_copy: bool, stall: bool, remaining in 0u64..5000) {
        let options = MigrationOptions {
            completion_timeout_per_gib: limit,
            allow_workload_disruption: disruption,
            allow_post_copy: post_copy,
            max_downtime_ms: 900,
            ..MigrationOptions::default()
        };
        let options = if stall { stalling(options) } else { options };
        let mut job = Job::new(&options, false);
        job.until(400_000, |_| Some(remaining * MIB));
        let ended = job.log.iter().any(|(_, action)| matches!(action, Action::Abort(_) | Action::StartPostCopy));
        prop_assert!(ended, "{:?}", job.log);
    }
}
