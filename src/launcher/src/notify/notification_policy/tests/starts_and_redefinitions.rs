//! Notifications of starts and redefinitions.

use super::*;

#[test]
fn definition_after_a_failed_redefinition_is_published() {
    let updated = lifecycle(LifecycleEvent::Defined, Detail::Updated);
    for ended in [VmEvent::RedefinitionFailed, VmEvent::Republish] {
        let mut policy = NotificationPolicy::default();
        policy.observe(&lifecycle(LifecycleEvent::Started, Detail::Migrated));
        policy.observe_published(true);
        policy.observe(&lifecycle(LifecycleEvent::Resumed, Detail::Migrated));
        policy.observe(&VmEvent::RedefinitionBegins);
        policy.observe(&ended);
        let published = policy.observe(&updated);
        assert_eq!(published, [Publication::MODIFIED], "{ended:?}");
    }
}

#[test]
fn starting_up_is_published_once_and_only_before_the_domain_runs() {
    let mut policy = NotificationPolicy::default();
    assert_eq!(
        policy.observe(&VmEvent::StartingUp),
        [],
        "the domain is not announced"
    );
    policy.observe(&lifecycle(LifecycleEvent::Defined, Detail::Added));
    policy.observe_published(false);
    let published = policy.observe(&VmEvent::StartingUp);
    assert!(published.len() == 1 && published[0].starting_up && published[0].with_metadata);
    policy.observe_published(true);
    assert_eq!(policy.observe(&VmEvent::StartingUp), []);
    policy.observe_published(false);
    assert_eq!(
        policy.observe(&VmEvent::StartingUp).len(),
        1,
        "another start"
    );
}

#[test]
fn failed_start_is_published_if_the_start_was() {
    let mut policy = NotificationPolicy::default();
    policy.observe(&lifecycle(LifecycleEvent::Defined, Detail::Added));
    policy.observe_published(false);
    assert_eq!(policy.observe(&VmEvent::StartFailed), []);
    policy.observe(&VmEvent::StartingUp);
    policy.observe_published(true);
    assert_eq!(
        policy.observe(&VmEvent::StartFailed),
        [Publication::MODIFIED]
    );
}

#[test]
fn start_with_two_events_is_published_once() {
    let no_agent = VmEvent::Libvirt(Event::AgentLifecycle {
        domain: "default_vm1".into(),
        connected: false,
    });
    let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
    let resumed = lifecycle(LifecycleEvent::Resumed, Detail::Unpaused);
    for (first, second) in [
        (&no_agent, &VmEvent::StartingUp),
        (&VmEvent::StartingUp, &no_agent),
    ] {
        let mut policy = NotificationPolicy::default();
        policy.observe(&defined);
        policy.observe_published(false);
        assert!(policy.observe(first)[0].starting_up);
        policy.observe_published(true);
        assert_eq!(policy.observe(second), []);
        assert!(!policy.observe(&resumed)[0].starting_up);
        let lost = policy.observe(&no_agent);
        assert!(
            lost.len() == 1 && !lost[0].starting_up,
            "published after the start"
        );
    }
}
