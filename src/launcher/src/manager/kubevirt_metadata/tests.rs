//! When a record sends an event, and which records a later one may replace.

use super::*;
use crate::vm_events::vm_event_queue;

#[test]
fn only_a_change_sends_an_event() {
    let (events, mut received) = vm_event_queue();
    let metadata = MetadataStore::new(events);
    metadata.set_identity("1234", 5);
    metadata.set_identity("1234", 5);
    metadata.set_grace_period(5);
    assert_eq!(received.try_recv(), Some(VmEvent::Metadata));
    assert!(received.try_recv().is_none());
    metadata.set_deletion_timestamp();
    let first = metadata.current();
    metadata.set_deletion_timestamp();
    assert_eq!(metadata.current(), first);
    assert_eq!(metadata.current().uid, "1234");
}

#[test]
fn record_of_another_migration_is_not_changed() {
    let (events, _received) = vm_event_queue();
    let metadata = MetadataStore::new(events);
    assert!(!metadata.change_migration("a", |record| record.failed = true));
    metadata.set_migration(Migration::begin("a", now()));
    assert!(!metadata.change_migration("b", |record| record.failed = true));
    assert!(metadata.change_migration("a", |record| record.failed = true));
    let record = metadata.current().migration;
    assert!(record.is_some_and(|record| record.failed && record.uid == "a"));
}

#[test]
fn transfer_replaces_the_start_time_of_a_migration_that_has_not_ended() {
    let (events, mut received) = vm_event_queue();
    let metadata = MetadataStore::new(events);
    metadata.set_incoming_migration_start();
    assert_eq!(metadata.current().migration, None);
    metadata.set_migration(Migration::begin("a", "prepared".into()));
    assert_eq!(received.try_recv(), Some(VmEvent::Metadata));
    metadata.set_incoming_migration_start();
    let start = |metadata: &MetadataStore| metadata.current().migration?.start_timestamp;
    assert_ne!(start(&metadata).as_deref(), Some("prepared"));
    assert!(
        received.try_recv().is_none(),
        "the start of the incoming migration is published"
    );
    metadata.set_migration(Migration {
        end_timestamp: Some("ended".into()),
        ..Migration::begin("b", "prepared".into())
    });
    metadata.set_incoming_migration_start();
    assert_eq!(start(&metadata).as_deref(), Some("prepared"));
}
