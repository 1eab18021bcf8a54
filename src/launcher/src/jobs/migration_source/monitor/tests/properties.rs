//! Property tests of the monitor.

use super::stalls::with_stall_detector;
use super::*;

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
        if stall { with_stall_detector(options) } else { options }
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
    /// An abort is requested only once until it fails, and never by a rule after post-copy has begun.
    #[test]
    fn abort_is_requested_once_and_never_after_post_copy(
        options in any_options(), samples in any_samples(), host_devices: bool)
    {
        let mut job = TestJob::new(&options, host_devices);
        for (sample, succeeds) in samples {
            let before = (job.monitor.mode(), job.monitor.is_aborting, job.log.len());
            job.sample_with(sample, succeeds);
            let aborts = job.log[before.2..].iter().filter(|(_, action)| matches!(action, Action::Abort(_)));
            let aborts = aborts.count();
            prop_assert!(aborts <= 1);
            prop_assert!(aborts == 0 || (!before.1 && before.0 != MigrationMode::PostCopy));
            if job.monitor.mode() == MigrationMode::PostCopy {
                prop_assert!(options.allow_post_copy && !host_devices);
            }
        }
        let suspended = job.log.iter().any(|(_, action)| *action == Action::Suspend);
        prop_assert!(!suspended || options.allow_workload_disruption);
    }

    /// If the same sample repeats for long enough, the migration is aborted or continues on the target.
    #[test]
    fn limit_ends_every_migration(limit in 1i64..5, disruption: bool, post_copy: bool, stall: bool, remaining in 0u64..5000) {
        let options = MigrationOptions {
            completion_timeout_per_gib: limit,
            allow_workload_disruption: disruption,
            allow_post_copy: post_copy,
            max_downtime_ms: 900,
            ..MigrationOptions::default()
        };
        let options = if stall { with_stall_detector(options) } else { options };
        let mut job = TestJob::new(&options, false);
        job.until(400_000, |_| Some(remaining * MIB));
        let ended = job.log.iter().any(|(_, action)| matches!(action, Action::Abort(_) | Action::StartPostCopy));
        prop_assert!(ended, "{:?}", job.log);
    }
}
