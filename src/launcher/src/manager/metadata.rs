//! KubeVirt's metadata of the domain: what virt-handler learns with every notification. It is kept
//! here and not in libvirt, as KubeVirt does: libvirt refuses to change it during a migration.

use std::sync::{Mutex, PoisonError};

use domain::metadata::{AccessCredential, GracePeriod, KubeVirtMetadata};
use tokio::sync::{mpsc, watch};

use crate::notify::Fact;

/// The metadata, and whom to tell when it changes.
pub struct Metadata {
    current: Mutex<Versioned>,
    facts: mpsc::UnboundedSender<Fact>,
    told: watch::Sender<u64>,
}

#[derive(Clone, Default)]
struct Versioned {
    metadata: KubeVirtMetadata,
    version: u64,
}

impl Metadata {
    /// Nothing is known yet.
    pub fn new(facts: mpsc::UnboundedSender<Fact>) -> Metadata {
        Metadata {
            current: Mutex::default(),
            facts,
            told: watch::Sender::new(0),
        }
    }

    /// What is known now.
    pub fn current(&self) -> KubeVirtMetadata {
        self.lock().metadata.clone()
    }

    /// What is known now, to be told: `done` is to be called with the number once it was.
    pub(super) fn to_tell(&self) -> (KubeVirtMetadata, u64) {
        let Versioned { metadata, version } = self.lock().clone();
        (metadata, version)
    }

    /// The metadata of that number have been told.
    pub(super) fn done(&self, version: u64) {
        self.told.send_replace(version);
    }

    /// Waits until virt-handler is told what is known now.
    pub(super) async fn all_told(&self) {
        let version = self.lock().version;
        // This end holds the sender, so it cannot fail.
        let _ = self
            .told
            .subscribe()
            .wait_for(|told| *told >= version)
            .await;
    }

    /// Which VMI it is, and how long it may take to shut down.
    pub fn set_identity(&self, uid: &str, grace_period_seconds: i64) {
        self.change(|metadata| {
            metadata.uid = uid.to_owned();
            grace_period(metadata).deletion_grace_period_seconds = grace_period_seconds;
        });
    }

    /// How long it may take to shut down.
    pub fn set_grace_period(&self, seconds: i64) {
        self.change(|metadata| grace_period(metadata).deletion_grace_period_seconds = seconds);
    }

    /// The guest was asked to shut down; the first time counts.
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

    /// Whether access credentials reached the guest, and if not, why. True when that is news.
    pub fn set_access_credential(&self, succeeded: bool, message: &str) -> bool {
        self.change(|metadata| {
            metadata.access_credential = Some(AccessCredential {
                succeeded,
                message: message.to_owned(),
            });
        })
    }

    fn change(&self, change: impl FnOnce(&mut KubeVirtMetadata)) -> bool {
        let mut current = self.lock();
        let before = current.metadata.clone();
        change(&mut current.metadata);
        let is_news = current.metadata != before;
        if is_news {
            current.version += 1;
            // Without an observer there is nobody to tell.
            let _ = self.facts.send(Fact::Metadata);
        }
        is_news
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Versioned> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn grace_period(metadata: &mut KubeVirtMetadata) -> &mut GracePeriod {
    metadata
        .grace_period
        .get_or_insert_with(GracePeriod::default)
}

/// Now, as Kubernetes writes it: UTC, to the second.
pub fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_is_told() {
        let (facts, mut told) = mpsc::unbounded_channel();
        let metadata = Metadata::new(facts);
        metadata.set_identity("1234", 5);
        metadata.set_identity("1234", 5);
        metadata.set_grace_period(5);
        assert_eq!(told.try_recv().ok(), Some(Fact::Metadata));
        assert!(told.try_recv().is_err());
        metadata.set_deletion_timestamp();
        let first = metadata.current();
        metadata.set_deletion_timestamp();
        assert_eq!(metadata.current(), first);
        assert_eq!(metadata.current().uid, "1234");
    }

    #[test]
    fn a_timestamp_is_to_the_second() {
        let text = now();
        assert_eq!(text.len(), "2026-11-21T11:55:54Z".len(), "{text}");
        assert!(text.ends_with('Z'));
    }
}
