//! Tests of the stages of a migration to this pod.

use proptest::prelude::*;

use super::*;

fn event(event: LifecycleEvent, detail: Detail) -> Event {
    Event::Lifecycle {
        domain: "default_vm1".into(),
        event,
        detail,
    }
}

fn after(events: &[(LifecycleEvent, Detail)]) -> IncomingMigrationStage {
    let events = events.iter().map(|(kind, detail)| event(*kind, *detail));
    events.fold(IncomingMigrationStage::None, |stage, event| {
        stage.observe(&event)
    })
}

const STARTED: (LifecycleEvent, Detail) = (LifecycleEvent::Started, Detail::Migrated);
const RESUMED: (LifecycleEvent, Detail) = (LifecycleEvent::Resumed, Detail::Migrated);

#[test]
fn guest_has_arrived_when_it_is_resumed_or_stays_paused() {
    let defined = (LifecycleEvent::Defined, Detail::Added);
    assert_eq!(
        after(&[STARTED, defined]),
        IncomingMigrationStage::Receiving
    );
    assert_eq!(
        after(&[STARTED, defined, RESUMED]),
        IncomingMigrationStage::Running
    );
    let paused = (LifecycleEvent::Suspended, Detail::Paused);
    assert_eq!(after(&[STARTED, paused]), IncomingMigrationStage::Running);
    let post_copy = (LifecycleEvent::Resumed, Detail::Postcopy);
    assert_eq!(
        after(&[STARTED, post_copy]),
        IncomingMigrationStage::Receiving
    );
    assert_eq!(
        after(&[STARTED, post_copy, RESUMED]),
        IncomingMigrationStage::Running
    );
}

#[test]
fn events_of_a_locally_booted_vm_are_no_incoming_migration() {
    let booted = (LifecycleEvent::Started, Detail::Booted);
    let paused = (LifecycleEvent::Suspended, Detail::Paused);
    assert_eq!(
        after(&[booted, paused, RESUMED]),
        IncomingMigrationStage::None
    );
}

#[test]
fn vm_that_is_stopped_has_not_arrived() {
    let stopped = (LifecycleEvent::Stopped, Detail::Failed);
    assert_eq!(
        after(&[STARTED, stopped, RESUMED]),
        IncomingMigrationStage::None
    );
}

#[test]
fn lost_events_lead_to_the_same_stage() {
    let stage_after_lost_events = |stage: IncomingMigrationStage, state, reason| {
        let lost = stage.lost_events(Some(State::new(state, reason)));
        let events = lost.iter().map(|(kind, detail)| event(*kind, *detail));
        events.fold(stage, |stage, event| stage.observe(&event))
    };
    for (stage, state, reason, expected) in [
        (
            IncomingMigrationStage::None,
            DomainState::Running,
            Reason::Booted,
            IncomingMigrationStage::None,
        ),
        (
            IncomingMigrationStage::Expected,
            DomainState::Shutoff,
            Reason::Unknown,
            IncomingMigrationStage::Expected,
        ),
        (
            IncomingMigrationStage::Expected,
            DomainState::Paused,
            Reason::Migration,
            IncomingMigrationStage::Receiving,
        ),
        (
            IncomingMigrationStage::Expected,
            DomainState::Running,
            Reason::Migrated,
            IncomingMigrationStage::Running,
        ),
        (
            IncomingMigrationStage::Receiving,
            DomainState::Running,
            Reason::Migrated,
            IncomingMigrationStage::Running,
        ),
        (
            IncomingMigrationStage::Receiving,
            DomainState::Paused,
            Reason::User,
            IncomingMigrationStage::Running,
        ),
        (
            IncomingMigrationStage::Receiving,
            DomainState::Running,
            Reason::Postcopy,
            IncomingMigrationStage::Receiving,
        ),
        (
            IncomingMigrationStage::Receiving,
            DomainState::Shutoff,
            Reason::Failed,
            IncomingMigrationStage::None,
        ),
        (
            IncomingMigrationStage::Running,
            DomainState::Running,
            Reason::Migrated,
            IncomingMigrationStage::Running,
        ),
    ] {
        let after = stage_after_lost_events(stage, state, reason);
        assert_eq!(after, expected, "{stage:?} {state:?}/{reason:?}");
    }
}

#[test]
fn missing_domain_means_stopped_only_while_it_was_being_received() {
    let stopped = (LifecycleEvent::Stopped, Detail::Failed);
    assert_eq!(
        IncomingMigrationStage::Receiving.lost_events(None),
        [stopped]
    );
    assert_eq!(IncomingMigrationStage::Expected.lost_events(None), []);
}

proptest! {
    #[test]
    fn guest_runs_only_after_an_incoming_start(kinds in proptest::collection::vec(0..5usize, 0..8)) {
        let all = [
            STARTED, RESUMED, (LifecycleEvent::Suspended, Detail::Paused),
            (LifecycleEvent::Stopped, Detail::Failed), (LifecycleEvent::Started, Detail::Booted),
        ];
        let events: Vec<_> = kinds.iter().map(|kind| all[*kind]).collect();
        if after(&events) == IncomingMigrationStage::Running {
            let since_stop = events.rsplit(|event| event.0 == LifecycleEvent::Stopped).next();
            prop_assert!(since_stop.is_some_and(|events| events.contains(&STARTED)));
        }
    }
}

#[test]
fn definition_gets_the_changes_of_the_incoming_domain() {
    let edit = LastIncomingEdit::default();
    assert_eq!(
        edit.apply_to("<domain/>"),
        Ok(None),
        "no domain was received"
    );
    let domain = "<domain><name>a</name><devices><disk><source file='/a'/><target dev='vda'/></disk></devices></domain>";
    edit.set(domain.into(), domain.into());
    assert_eq!(edit.apply_to(domain), Ok(None));
    edit.set(domain.into(), domain.replace("'/a'", "'/b'"));
    let definition = domain.replace("dev='vda'", "dev='vda' bus='virtio'");
    let defined = edit.apply_to(&definition).unwrap().unwrap();
    assert_eq!(defined, definition.replace("'/a'", "'/b'"));
    assert!(edit.apply_to("<domain/>").is_err());
}
