//! Admission of syncs: they join, replace, follow or are refused.

use super::*;

#[test]
fn repeated_sync_joins_the_running_one() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let repeated = test.request(sync("1", 5), &ABSENT);
    assert_eq!(test.running(), [boot]);
    assert_eq!(test.end(boot, true, &ACTIVE), [boot, repeated]);
    assert!(test.running().is_empty());
}

#[test]
fn different_sync_runs_after_the_boot_and_only_the_newest_one_runs() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let second = test.request(sync("1", 6), &ABSENT);
    let third = test.request(sync("1", 7), &ABSENT);
    assert_eq!(test.end(boot, true, &ACTIVE), [boot]);
    assert_eq!(test.running(), [third], "the newest alone is applied");
    assert!(test.started[0].1.is_equal(&sync("1", 7)));
    assert_eq!(test.end(third, false, &ACTIVE), [second, third]);
}

#[test]
fn sync_that_follows_a_failed_boot_shares_its_error() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let second = test.request(sync("1", 6), &ABSENT);
    assert_eq!(test.end(boot, false, &ABSENT), [boot, second]);
    assert!(test.running().is_empty());
}

#[test]
fn different_sync_replaces_the_waiting_one_and_its_callers_get_the_newest_answer() {
    let mut test = TestQueue::default();
    let running = test.request(sync("1", 5), &ACTIVE);
    let waiting = test.request(sync("1", 6), &ACTIVE);
    let newest = test.request(sync("1", 7), &ACTIVE);
    assert_eq!(test.end(running, true, &ACTIVE), [running]);
    assert_eq!(test.running(), [newest]);
    assert_eq!(test.end(newest, false, &ACTIVE), [waiting, newest]);
}

#[test]
fn sync_of_another_vmi_waits_for_the_boot() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let other = test.request(sync("2", 5), &ABSENT);
    assert_eq!(test.end(boot, true, &ACTIVE), [boot]);
    assert_eq!(test.running(), [other]);
}

#[test]
fn sync_of_another_vmi_does_not_replace_the_sync_that_follows_a_boot() {
    let mut test = TestQueue::default();
    let boot = test.request(sync("1", 5), &ABSENT);
    let follower = test.request(sync("1", 6), &ABSENT);
    let other = test.request(sync("2", 5), &ABSENT);
    assert_eq!(test.end(boot, false, &ABSENT), [boot, follower]);
    assert_eq!(test.running(), [other]);
}

#[test]
fn sync_is_refused_once_the_domain_is_gone() {
    let mut test = TestQueue::default();
    let state_gone = VmState {
        phase: Phase::Gone,
        ..ACTIVE
    };
    let late = test.request(sync("1", 5), &state_gone);
    assert_eq!(test.refused[&late], CommandRefusal::Gone);
}

#[test]
fn sync_is_refused_until_the_migration_to_this_pod_has_ended() {
    let mut test = TestQueue::default();
    let role = Role::Target;
    let early = test.request(sync("1", 5), &VmState { role, ..ABSENT });
    assert_eq!(test.refused[&early], CommandRefusal::AwaitsMigration);
    let on_its_way = test.request(sync("1", 5), &VmState { role, ..ACTIVE });
    assert_eq!(test.refused[&on_its_way], CommandRefusal::AwaitsMigration);
    let arrived = test.request(sync("1", 5), &ACTIVE);
    assert_eq!(test.running(), [arrived]);
}
