//! KubeVirt's metadata of the domain, which most notifications contain. The launcher keeps them itself, as KubeVirt's
//! launcher does: libvirt refuses to change metadata during a migration.

use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use hook_host::printable;
use kubevirt_api::domain_metadata::{
    AccessCredential, Backup, GracePeriod, KubeVirtMetadata, MemoryDump, Migration,
};
use tokio::sync::watch;

use crate::jobs::JobRecorder;
pub(super) use crate::timestamp::now;
use crate::vm_events::{VmEvent, VmEventSender};

/// Maximum length in bytes of a message that may quote the guest. It is limited because each notification contains it.
const MAX_MESSAGE_BYTES: usize = 900;

/// KubeVirt's metadata of the domain. The observer gets an event after each change.
pub struct MetadataStore {
    current: Mutex<VersionedMetadata>,
    events: VmEventSender,
    published: watch::Sender<u64>,
}

#[derive(Clone, Default)]
struct VersionedMetadata {
    metadata: KubeVirtMetadata,
    version: u64,
}

impl MetadataStore {
    /// Empty metadata.
    pub fn new(events: VmEventSender) -> MetadataStore {
        MetadataStore {
            current: Mutex::default(),
            events,
            published: watch::Sender::new(0),
        }
    }

    /// The current metadata.
    pub fn current(&self) -> KubeVirtMetadata {
        self.lock().metadata.clone()
    }

    /// The metadata and their version, which is passed to `mark_published` after they were sent.
    pub(super) fn to_publish(&self) -> (KubeVirtMetadata, u64) {
        let VersionedMetadata { metadata, version } = self.lock().clone();
        (metadata, version)
    }

    /// Records that the metadata of this version were handed to the notifier.
    pub(super) fn mark_published(&self, version: u64) {
        self.published.send_replace(version);
    }

    /// Waits until the current metadata were handed to the notifier.
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

    /// Asks virt-handler to shut the VM down gracefully.
    pub fn mark_for_graceful_shutdown(&self) {
        self.change(|metadata| grace_period(metadata).marked_for_graceful_shutdown = Some(true));
    }

    /// Records whether access credentials were set in the guest, with the error if not. Returns whether that is a
    /// change.
    pub fn set_access_credential(&self, succeeded: bool, message: &str) -> bool {
        self.change(|metadata| {
            metadata.access_credential = Some(AccessCredential {
                succeeded,
                message: printable(message, MAX_MESSAGE_BYTES),
            });
        })
    }

    /// Replaces the record of the migration.
    pub fn set_migration(&self, record: Migration) {
        self.change(|metadata| metadata.migration = Some(record));
    }

    /// Changes the record of the migration with this UID. Returns false if there is none, or if nothing changes.
    pub fn change_migration(&self, uid: &str, change: impl FnOnce(&mut Migration)) -> bool {
        self.change(|metadata| {
            let record = metadata.migration.as_mut();
            if let Some(record) = record.filter(|record| record.uid == uid) {
                change(record);
            }
        })
    }

    /// Sets the start of the migration to this pod to now: it begins with the transfer and not with the pod's
    /// preparation. No event is sent, because the event of the transfer is published next.
    pub(super) fn set_incoming_migration_start(&self) {
        self.change_and_send(&[], |metadata| {
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
        self.change_and_send(&[VmEvent::Metadata], change)
    }

    fn change_and_send(
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

impl JobRecorder for MetadataStore {
    fn set_memory_dump(&self, record: MemoryDump) {
        self.change(|metadata| metadata.memory_dump = Some(record));
    }

    fn migration(&self) -> Option<Migration> {
        self.lock().metadata.migration.clone()
    }

    fn set_migration(&self, record: Migration) {
        MetadataStore::set_migration(self, record);
    }

    fn set_backup(&self, record: Backup) {
        let events: &[VmEvent] = match record.completed {
            true => &[VmEvent::BackupEnded, VmEvent::Metadata],
            false => &[VmEvent::Metadata],
        };
        self.change_and_send(events, |metadata| metadata.backup = Some(record));
    }

    fn all_published(&self) -> BoxFuture<'_, ()> {
        Box::pin(MetadataStore::all_published(self))
    }
}

#[cfg(test)]
mod tests;
