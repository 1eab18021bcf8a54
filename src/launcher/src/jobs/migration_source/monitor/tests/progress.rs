//! What counts as progress for the progress timeout.

use super::*;

const GIB: u64 = 1 << 30;

/// A sample of a guest that writes as fast as memory is sent: each iteration of 10 s begins and ends with the same
/// remainder.
fn sample_without_convergence(millis: u64) -> Sample {
    let (iteration, elapsed) = (millis / 10_000, millis % 10_000);
    with_stats(at(millis, 4 * GIB - elapsed * 300_000), |stats| {
        stats.memory_iteration = Some(iteration + 1);
    })
}

fn with_stats(mut sample: Sample, change: impl FnOnce(&mut JobStats)) -> Sample {
    if let Some(stats) = &mut sample.stats {
        change(stats);
    }
    sample
}

fn play(options: &MigrationOptions, millis: u64, sample: impl Fn(u64) -> Sample) -> TestJob {
    let mut job = TestJob::new(options, false);
    for now in (0..=millis).step_by(400) {
        job.sample(sample(now));
    }
    job
}

#[test]
fn iteration_is_progress_although_the_guest_writes_as_fast() {
    let options = MigrationOptions {
        completion_timeout_per_gib: 1000,
        ..options()
    };
    let job = play(&options, 400_000, sample_without_convergence);
    assert_eq!(job.log, []);
}

#[test]
fn migration_that_does_not_converge_is_completed_by_force_at_the_limit() {
    for (post_copy, action) in [(true, Action::StartPostCopy), (false, Action::Suspend)] {
        let options = disruptive(1000, post_copy);
        let job = play(&options, 1_002_000, sample_without_convergence);
        assert_eq!(job.log, [(1_001_200, action)]);
    }
}

/// libvirt copies disks first, and counts memory only after that.
#[test]
fn memory_after_disks_is_progress() {
    const DISKS_MILLIS: u64 = 100_000;
    const MEMORY_MILLIS: u64 = 290_000;
    let sample = |now: u64| match now.checked_sub(DISKS_MILLIS) {
        None => with_stats(
            at(now, 10 * GIB / DISKS_MILLIS * (DISKS_MILLIS - now)),
            |stats| {
                stats.memory_iteration = None;
                stats.memory_total = Some(0);
            },
        ),
        Some(now_in_memory) => {
            let remaining = 32 * GIB / MEMORY_MILLIS * (MEMORY_MILLIS - now_in_memory);
            with_stats(at(now, remaining), |stats| {
                stats.memory_total = Some(32 * GIB);
            })
        }
    };
    // libvirt does not always report the iteration.
    let without_iteration = |now| with_stats(sample(now), |stats| stats.memory_iteration = None);
    let unlimited = MigrationOptions {
        completion_timeout_per_gib: 0,
        ..options()
    };
    for job in [
        play(&unlimited, DISKS_MILLIS + MEMORY_MILLIS, sample),
        play(&unlimited, DISKS_MILLIS + MEMORY_MILLIS, without_iteration),
    ] {
        assert_eq!(job.log, []);
    }
}

#[test]
fn constant_remainder_is_no_progress() {
    let unlimited = MigrationOptions {
        completion_timeout_per_gib: 0,
        ..options()
    };
    let job = play(&unlimited, 152_000, |now| {
        with_stats(at(now, GIB), |stats| stats.memory_total = Some(4 * GIB))
    });
    assert_eq!(
        job.log,
        [(151_200, Action::Abort(AbortCause::NoProgress(151)))]
    );
}
