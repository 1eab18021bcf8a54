//! Tests of the stall detector.

use super::*;

pub(super) fn with_stall_detector(options: MigrationOptions) -> MigrationOptions {
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

/// Feeds an iteration every 10 s, each with a sample of the bandwidth before it.
fn iterate(job: &mut TestJob, remainders: &[u64]) {
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
fn first_downtime_is_repeated_until_it_is_set() {
    let mut job = TestJob::new(&with_stall_detector(options()), false);
    job.sample_with(at(400, None), false);
    job.sample(at(800, None)).sample(at(1200, None));
    let limit = Action::SetDowntime(300);
    assert_eq!(job.log, [(400, limit), (800, limit)]);
}

#[test]
fn converging_migration_is_not_aborted() {
    let mut job = TestJob::new(&with_stall_detector(options()), false);
    iterate(
        &mut job,
        &[4000, 3500, 3000, 2500, 2000, 1500, 1000, 500, 100],
    );
    assert_eq!(job.log.len(), 1, "{:?}", job.log);
}

#[test]
fn stalled_migration_is_completed_or_aborted_by_the_expected_downtime() {
    // 4000 MiB at 100 MiB/s take 40 s, 120 MiB 1.2 s.
    let large = [4000, 4100, 4000, 4200, 4100, 4300];
    let small = [120, 130, 125, 130, 128, 121];
    let decide = |options: MigrationOptions, remainders: &[u64]| {
        let mut job = TestJob::new(&with_stall_detector(options), false);
        iterate(&mut job, remainders);
        job.log[1..].first().copied()
    };
    let aborted = decide(options(), &large);
    assert_eq!(
        aborted,
        Some((50_000, Action::Abort(AbortCause::Downtime(41_000))))
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
        Some((50_000, Action::SetMaxDowntime(MAX_DOWNTIME_MS)))
    );
    let post_copy = decide(disruptive(150, true), &large);
    assert_eq!(post_copy, Some((50_000, Action::StartPostCopy)));
}

#[test]
fn switchover_has_a_deadline_of_its_own() {
    let mut job = TestJob::new(&with_stall_detector(disruptive(150, false)), false);
    iterate(&mut job, &[4000, 4100, 4000, 4200, 4100]);
    let begun = job.log.last().unwrap().0;
    assert_eq!(begun, 50_000);
    job.sample(at(110_999, 4000 * MIB));
    assert_eq!(job.log.last().unwrap().0, begun);
    job.sample(at(111_000, 4000 * MIB));
    assert_eq!(
        job.log.last(),
        Some(&(111_000, Action::Abort(AbortCause::Limit(110))))
    );
}

#[test]
fn overdue_migration_is_completed_only_while_data_are_transferred() {
    let mut job = TestJob::new(&with_stall_detector(disruptive(20, false)), false);
    job.sample(at(400, None)).sample(at(21_000, None));
    assert_eq!(
        job.log[1],
        (21_000, Action::Abort(AbortCause::Limit(20))),
        "no bandwidth is known"
    );
    let mut job = TestJob::new(&with_stall_detector(disruptive(20, false)), false);
    iterate(&mut job, &[1000]);
    job.sample(at(21_000, 1000 * MIB));
    assert_eq!(
        job.log[1],
        (21_000, Action::SetMaxDowntime(MAX_DOWNTIME_MS))
    );
}

#[test]
fn refused_downtime_does_not_raise_the_limit() {
    let mut job = TestJob::new(&with_stall_detector(disruptive(20, false)), false);
    iterate(&mut job, &[1000]);
    for millis in [21_000, 21_400] {
        job.sample_with(at(millis, 1000 * MIB), false);
    }
    job.sample(at(21_800, 1000 * MIB));
    let downtime = Action::SetMaxDowntime(MAX_DOWNTIME_MS);
    let requested = [(21_000, downtime), (21_400, downtime), (21_800, downtime)];
    assert_eq!(job.log[1..], requested);
    for millis in [22_200, 40_999, 41_000] {
        job.sample(Sample {
            is_paused: true,
            ..at(millis, 1000 * MIB)
        });
    }
    let twice_the_limit = (41_000, Action::Abort(AbortCause::Limit(40)));
    assert_eq!(job.log[4..], [twice_the_limit]);
}

#[test]
fn refused_abort_after_the_switchover_deadline_is_repeated() {
    let mut job = TestJob::new(&with_stall_detector(disruptive(150, false)), false);
    iterate(&mut job, &[4000, 4100, 4000, 4200, 4100]);
    job.sample_with(at(111_000, 4000 * MIB), false);
    job.sample(at(111_400, 4000 * MIB));
    let abort = Action::Abort(AbortCause::Limit(110));
    assert_eq!(job.log[2..], [(111_000, abort), (111_400, abort)]);
}

#[test]
fn refused_abort_of_a_stalled_migration_is_repeated_at_the_next_iteration() {
    let mut job = TestJob::new(&with_stall_detector(options()), false);
    iterate(&mut job, &[4000, 4100, 4000, 4200]);
    for (millis, succeeded) in [(50_000, false), (60_000, true)] {
        let begins_iteration = Sample {
            begins_iteration: true,
            ..at(millis, 4100 * MIB)
        };
        job.sample_with(begins_iteration, succeeded);
    }
    let abort = Action::Abort(AbortCause::Downtime(41_000));
    assert_eq!(job.log[1..], [(50_000, abort), (60_000, abort)]);
}

#[test]
fn pause_by_qemu_is_recorded_with_a_stall_detector() {
    let mut job = TestJob::new(&with_stall_detector(options()), false);
    job.sample(Sample {
        is_paused: true,
        ..at(400, 1)
    });
    assert_eq!(job.monitor.mode(), MigrationMode::Paused);
}
