//! Migrations that are completed by force at their limit.

use hook_host::MigrationParameters;
use kubevirt_api::vmi::Vmi;

use super::*;
use crate::jobs::MigrationJob;

/// As recorded with KubeVirt's launcher: the guest is paused at 2 s, and the migration aborted at twice the limit.
#[test]
fn disrupted_migration_suspends_once_and_is_aborted_at_twice_the_limit() {
    let mut job = TestJob::new(&disruptive(1, false), false);
    job.until(6000, |now| Some(300 * MIB - now));
    let expected = [
        (2000, Action::Suspend),
        (3200, Action::Abort(AbortCause::Limit(2))),
    ];
    assert_eq!(job.log, expected);
    assert_eq!(job.monitor.mode(), MigrationMode::Paused);
}

#[test]
fn post_copy_that_a_hook_allows_begins_at_the_limit() {
    let vmi = br#"{"metadata": {"name": "vm1", "namespace": "default"},
        "status": {"migrationState": {"migrationUid": "m"}}}"#;
    let one_second = MigrationOptions {
        completion_timeout_per_gib: 1,
        ..options()
    };
    let job = MigrationJob::new(Vmi::from_json(vmi).unwrap(), one_second).unwrap();
    let allowed = MigrationParameters {
        allow_post_copy: true,
        ..job.parameters()
    };
    let hooked = job.with_parameters(&allowed);
    let mut job = TestJob::new(hooked.options(), false);
    job.until(4000, |now| Some(300 * MIB - now));
    assert_eq!(job.log, [(2000, Action::StartPostCopy)]);
}

#[test]
fn post_copy_is_never_aborted_by_a_rule() {
    let mut job = TestJob::new(&disruptive(1, true), false);
    job.until(400_000, |_| Some(1));
    assert_eq!(job.log, [(2000, Action::StartPostCopy)]);
    assert_eq!(job.monitor.mode(), MigrationMode::PostCopy);
}

#[test]
fn downtime_is_raised_instead_of_suspending_a_guest_with_host_devices() {
    for (limit, downtime) in [(3, 6000), (5000, MAX_DOWNTIME_MS)] {
        let mut job = TestJob::new(&disruptive(limit, true), true);
        let late = u64::try_from(limit).unwrap() * 1000 + 1000;
        job.sample(at(late, 1)).sample(at(late + 1, 0));
        assert_eq!(job.log, [(late, Action::SetMaxDowntime(downtime))]);
        assert_eq!(job.monitor.mode(), MigrationMode::Paused);
    }
}

#[test]
fn failed_force_is_repeated_and_does_not_prevent_the_abort_without_progress() {
    let mut job = TestJob::new(
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
    assert_eq!(actions[3], Action::Abort(AbortCause::NoProgress(3)));
    assert_eq!(job.monitor.mode(), MigrationMode::PreCopy);
}
