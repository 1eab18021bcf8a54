//! Tests of the notification policy; those of starts and redefinitions are in a module of their own.

mod starts_and_redefinitions;

use proptest::prelude::*;

use super::*;

fn lifecycle(event: LifecycleEvent, detail: Detail) -> VmEvent {
    VmEvent::Libvirt(Event::Lifecycle {
        domain: "default_vm1".into(),
        event,
        detail,
    })
}

/// The types of the notifications that follow from the events, and whether they have metadata.
fn kinds(events: &[VmEvent]) -> Vec<(&'static str, bool)> {
    let mut policy = NotificationPolicy::default();
    events
        .iter()
        .flat_map(|event| policy.observe(event))
        .map(|publication| (publication.event_type.as_str(), publication.with_metadata))
        .collect()
}

const ADDED: (&str, bool) = ("ADDED", false);
const MODIFIED: (&str, bool) = ("MODIFIED", true);

#[test]
fn definition_is_published_before_metadata_in_either_order() {
    let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
    assert_eq!(
        kinds(&[defined.clone(), VmEvent::Metadata]),
        [ADDED, MODIFIED]
    );
    assert_eq!(kinds(&[VmEvent::Metadata, defined]), [ADDED, MODIFIED]);
}

#[test]
fn no_notification_before_the_first_event() {
    assert_eq!(
        kinds(&[VmEvent::Metadata, VmEvent::Republish, VmEvent::Metadata]),
        []
    );
}

#[test]
fn definition_in_two_steps_is_published_once() {
    let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
    let updated = lifecycle(LifecycleEvent::Defined, Detail::Updated);
    assert_eq!(kinds(&[defined.clone(), updated.clone()]), [ADDED]);
    let mut policy = NotificationPolicy::default();
    policy.observe(&defined);
    policy.observe_published(true);
    assert_eq!(policy.observe(&updated), [Publication::MODIFIED]);
}

#[test]
fn pause_is_published_once() {
    let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
    let paused = lifecycle(LifecycleEvent::Suspended, Detail::Paused);
    assert_eq!(kinds(&[defined, paused]), [ADDED, MODIFIED]);
}

#[test]
fn incoming_migration_is_added_with_its_metadata() {
    assert_eq!(
        kinds(&[lifecycle(LifecycleEvent::Started, Detail::Migrated)]),
        [("ADDED", true)]
    );
}

#[test]
fn incoming_vm_is_added_once_and_its_definition_is_not_published() {
    let no_agent = VmEvent::Libvirt(Event::AgentLifecycle {
        domain: "default_vm1".into(),
        connected: false,
    });
    let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
    let updated = lifecycle(LifecycleEvent::Defined, Detail::Updated);
    let events = [
        VmEvent::Metadata,
        no_agent.clone(),
        lifecycle(LifecycleEvent::Started, Detail::Migrated),
        no_agent,
        defined,
        VmEvent::RedefinitionBegins,
        lifecycle(LifecycleEvent::Resumed, Detail::Migrated),
        updated.clone(),
        VmEvent::Metadata,
    ];
    let mut policy = NotificationPolicy::default();
    let mut published = Vec::new();
    for event in &events {
        for publication in policy.observe(event) {
            published.push((publication.event_type.as_str(), publication.with_metadata));
            policy.observe_published(true);
        }
    }
    assert_eq!(published, [("ADDED", true), MODIFIED, MODIFIED]);
    assert_eq!(
        policy.observe(&updated),
        [Publication::MODIFIED],
        "another client's definition"
    );
}

#[test]
fn shutdown_of_a_qemu_in_which_the_guest_never_ran_is_not_published() {
    let ending = lifecycle(LifecycleEvent::Shutdown, Detail::Finished);
    assert_eq!(kinds(&[VmEvent::Metadata, ending.clone()]), []);
    let incoming = lifecycle(LifecycleEvent::Started, Detail::Migrated);
    let stopped = lifecycle(LifecycleEvent::Stopped, Detail::Failed);
    let published = kinds(&[incoming.clone(), ending.clone(), stopped]);
    assert_eq!(published, [("ADDED", true), MODIFIED]);
    let resumed = lifecycle(LifecycleEvent::Resumed, Detail::Migrated);
    let published = kinds(&[incoming, resumed, ending]);
    assert_eq!(published, [("ADDED", true), MODIFIED, MODIFIED]);
}

#[test]
fn missing_qemu_is_published_if_the_domain_was_published_as_running() {
    let mut policy = NotificationPolicy::default();
    assert_eq!(policy.observe(&VmEvent::QemuMissing), []);
    policy.observe(&lifecycle(LifecycleEvent::Started, Detail::Booted));
    policy.observe_published(true);
    assert_eq!(
        policy.observe(&VmEvent::QemuMissing),
        [Publication::MODIFIED]
    );
    policy.observe_published(false);
    assert_eq!(policy.observe(&VmEvent::QemuMissing), []);
}

/// KubeVirt's launcher sends `ADDED` when a backup ends.
#[test]
fn end_of_a_backup_is_added_once_with_its_record() {
    let job = |operation| {
        VmEvent::Libvirt(Event::JobCompleted {
            domain: "default_vm1".into(),
            params: vec![("operation".into(), libvirt::ParamValue::Signed(operation))],
        })
    };
    let defined = lifecycle(LifecycleEvent::Defined, Detail::Added);
    let end = [job(9), VmEvent::BackupEnded, VmEvent::Metadata];
    let events = [&[defined.clone()][..], &end].concat();
    assert_eq!(kinds(&events), [ADDED, ("ADDED", true), MODIFIED]);
    assert_eq!(kinds(&[defined, job(8)]), [ADDED, MODIFIED]);
    assert_eq!(kinds(&[VmEvent::BackupEnded]), []);
}

#[test]
fn reboot_is_not_published() {
    let reboot = VmEvent::Libvirt(Event::Reboot {
        domain: "default_vm1".into(),
    });
    assert_eq!(kinds(&[reboot]), []);
}

fn any_event() -> impl Strategy<Value = VmEvent> {
    use LifecycleEvent::{Defined, Resumed, Started, Stopped, Suspended, Undefined};
    let events = prop_oneof![
        Just((Defined, Detail::Added)),
        Just((Defined, Detail::Updated)),
        Just((Started, Detail::Booted)),
        Just((Suspended, Detail::Paused)),
        Just((Resumed, Detail::Unpaused)),
        Just((Stopped, Detail::Destroyed)),
        Just((Undefined, Detail::Removed)),
    ];
    prop_oneof![
        events.prop_map(|(event, detail)| lifecycle(event, detail)),
        Just(VmEvent::Metadata),
        Just(VmEvent::Republish),
    ]
}

proptest! {
    /// After the domain is announced, the last change of the metadata is always published.
    #[test]
    fn every_change_of_metadata_is_published(events in proptest::collection::vec(any_event(), 0..12)) {
        let mut policy = NotificationPolicy::default();
        let (mut announced, mut unpublished) = (false, false);
        for event in &events {
            unpublished |= *event == VmEvent::Metadata;
            for publication in policy.observe(event) {
                announced = true;
                unpublished &= !publication.with_metadata;
            }
        }
        prop_assert!(!announced || !unpublished);
    }
}
