//! KubeVirt's metadata of the domain, part of every notification. The launcher keeps it itself and not in
//! libvirt, as KubeVirt does: libvirt refuses to change metadata during a migration.

use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use hook_host::printable;
use kubevirt_api::domain_metadata::{
    AccessCredential, Backup, GracePeriod, KubeVirtMetadata, MemoryDump, Migration,
};
use tokio::sync::{mpsc, watch};

use crate::jobs::JobRecorder;
pub(super) use crate::timestamp::now;
use crate::vm_events::VmEvent;

/// The most bytes of a message that may quote the guest: each notification has it.
const MAX_MESSAGE: usize = 900;

/// The metadata; every change is sent to the observer.
pub struct Metadata {
    current: Mutex<VersionedMetadata>,
    events: mpsc::UnboundedSender<VmEvent>,
    published: watch::Sender<u64>,
}

#[derive(Clone, Default)]
struct VersionedMetadata {
    metadata: KubeVirtMetadata,
    version: u64,
}

impl Metadata {
    /// Empty metadata.
    pub fn new(events: mpsc::UnboundedSender<VmEvent>) -> Metadata {
        Metadata {
            current: Mutex::default(),
            events,
            published: watch::Sender::new(0),
        }
    }

    /// The current metadata.
    pub fn current(&self) -> KubeVirtMetadata {
        self.lock().metadata.clone()
    }

    /// The metadata and their version, which goes to `mark_published` once they were sent.
    pub(super) fn to_publish(&self) -> (KubeVirtMetadata, u64) {
        let VersionedMetadata { metadata, version } = self.lock().clone();
        (metadata, version)
    }

    /// The metadata of that version were sent.
    pub(super) fn mark_published(&self, version: u64) {
        self.published.send_replace(version);
    }

    /// Waits until the current metadata were sent to virt-handler.
    pub(super) async fn all_published(&self) {
        let version = self.lock().version;
        // Cannot fail: `self` holds the sender.
        let _ = self
            .published
            .subscribe()
            .wait_for(|published| *published >= version)
            .await;
    }

    /// Sets the VMI's UID and grace period.
    pub fn set_identity(&self, uid: &str, grace_period_seconds: i64) {
        self.change(|metadata| {
            metadata.uid = uid.to_owned();
            grace_period(metadata).deletion_grace_period_seconds = grace_period_seconds;
        });
    }

    /// Sets the grace period.
    pub fn set_grace_period(&self, seconds: i64) {
        self.change(|metadata| grace_period(metadata).deletion_grace_period_seconds = seconds);
    }

    /// Records when the guest was first asked to shut down.
    pub fn set_deletion_timestamp(&self) {
        self.change(|metadata| {
            grace_period(metadata)
                .deletion_timestamp
                .get_or_insert_with(now);
        });
    }

    /// virt-handler is to shut the VM down.
    pub fn mark_for_graceful_shutdown(&self) {
        self.change(|metadata| grace_period(metadata).marked_for_graceful_shutdown = Some(true));
    }

    /// Whether access credentials reached the guest, and if not, why. True when that is a change.
    pub fn set_access_credential(&self, succeeded: bool, message: &str) -> bool {
        self.change(|metadata| {
            metadata.access_credential = Some(AccessCredential {
                succeeded,
                message: printable(message, MAX_MESSAGE),
            });
        })
    }

    /// Replaces the record of the migration.
    pub fn set_migration(&self, record: Migration) {
        self.change(|metadata| metadata.migration = Some(record));
    }

    /// Changes the record of the migration of this UID; false when there is none, or when that changes nothing.
    pub fn change_migration(&self, uid: &str, change: impl FnOnce(&mut Migration)) -> bool {
        self.change(|metadata| {
            let record = metadata.migration.as_mut();
            if let Some(record) = record.filter(|record| record.uid == uid) {
                change(record);
            }
        })
    }

    /// The migration to this pod begins now, and not with the pod's preparation. The event that this follows from is
    /// published next.
    pub(super) fn set_incoming_migration_start(&self) {
        self.change_and_tell(&[], |metadata| {
            let record = metadata.migration.as_mut();
            if let Some(record) = record.filter(|record| record.end_timestamp.is_none()) {
                record.start_timestamp = Some(now());
            }
        });
    }

    /// Whether a migration of this VM, to or from this pod, has begun and has not ended.
    pub(crate) fn migration_runs(&self) -> bool {
        let current = self.lock();
        let record = current.metadata.migration.as_ref();
        record.is_some_and(|record| {
            record.start_timestamp.is_some() && record.end_timestamp.is_none()
        })
    }

    fn change(&self, change: impl FnOnce(&mut KubeVirtMetadata)) -> bool {
        self.change_and_tell(&[VmEvent::Metadata], change)
    }

    fn change_and_tell(
        &self,
        events: &[VmEvent],
        change: impl FnOnce(&mut KubeVirtMetadata),
    ) -> bool {
        let mut current = self.lock();
        let before = current.metadata.clone();
        change(&mut current.metadata);
        let changed = current.metadata != before;
        if changed {
            current.version += 1;
            for event in events {
                // Fails only when the observer is gone.
                let _ = self.events.send(event.clone());
            }
        }
        changed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VersionedMetadata> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn grace_period(metadata: &mut KubeVirtMetadata) -> &mut GracePeriod {
    metadata
        .grace_period
        .get_or_insert_with(GracePeriod::default)
}

impl JobRecorder for Metadata {
    fn set_memory_dump(&self, record: MemoryDump) {
        self.change(|metadata| metadata.memory_dump = Some(record));
    }

    fn migration(&self) -> Option<Migration> {
        self.lock().metadata.migration.clone()
    }

    fn set_migration(&self, record: Migration) {
        Metadata::set_migration(self, record);
    }

    fn set_backup(&self, record: Backup) {
        let events: &[VmEvent] = match record.completed {
            true => &[VmEvent::BackupEnded, VmEvent::Metadata],
            false => &[VmEvent::Metadata],
        };
        self.change_and_tell(events, |metadata| metadata.backup = Some(record));
    }

    fn all_published(&self) -> BoxFuture<'_, ()> {
        Box::pin(Metadata::all_published(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_send_an_event() {
        let (events, mut received) = mpsc::unbounded_channel();
        let metadata = Metadata::new(events);
        metadata.set_identity("1234", 5);
        metadata.set_identity("1234", 5);
        metadata.set_grace_period(5);
        assert_eq!(received.try_recv().ok(), Some(VmEvent::Metadata));
        assert!(received.try_recv().is_err());
        metadata.set_deletion_timestamp();
        let first = metadata.current();
        metadata.set_deletion_timestamp();
        assert_eq!(metadata.current(), first);
        assert_eq!(metadata.current().uid, "1234");
    }

    #[test]
    fn record_of_another_migration_is_not_changed() {
        let (events, _received) = mpsc::unbounded_channel();
        let metadata = Metadata::new(events);
        assert!(!metadata.change_migration("a", |record| record.failed = true));
        metadata.set_migration(Migration::begin("a", now()));
        assert!(!metadata.change_migration("b", |record| record.failed = true));
        assert!(metadata.change_migration("a", |record| record.failed = true));
        let record = metadata.current().migration;
        assert!(record.is_some_and(|record| record.failed && record.uid == "a"));
    }

    #[test]
    fn arrival_replaces_the_start_of_a_migration_that_has_not_ended() {
        let (events, mut received) = mpsc::unbounded_channel();
        let metadata = Metadata::new(events);
        metadata.set_incoming_migration_start();
        assert_eq!(metadata.current().migration, None);
        metadata.set_migration(Migration::begin("a", "prepared".into()));
        assert_eq!(received.try_recv().ok(), Some(VmEvent::Metadata));
        metadata.set_incoming_migration_start();
        let start = |metadata: &Metadata| metadata.current().migration?.start_timestamp;
        assert_ne!(start(&metadata).as_deref(), Some("prepared"));
        assert!(
            received.try_recv().is_err(),
            "the start of the incoming migration is published"
        );
        metadata.set_migration(Migration {
            end_timestamp: Some("ended".into()),
            ..Migration::begin("b", "prepared".into())
        });
        metadata.set_incoming_migration_start();
        assert_eq!(start(&metadata).as_deref(), Some("prepared"));
    }
}
