//! KubeVirt's metadata of the domain: what virt-handler learns with every notification. It is kept
//! here and not in libvirt, as KubeVirt does: libvirt refuses to change it during a migration.

use std::sync::{Mutex, PoisonError};

use domain::metadata::{GracePeriod, KubeVirtMetadata};
use tokio::sync::mpsc;

use crate::notify::Fact;

/// The metadata, and whom to tell when it changes.
pub struct Metadata {
    current: Mutex<KubeVirtMetadata>,
    facts: mpsc::UnboundedSender<Fact>,
}

impl Metadata {
    /// Nothing is known yet.
    pub fn new(facts: mpsc::UnboundedSender<Fact>) -> Metadata {
        Metadata {
            current: Mutex::default(),
            facts,
        }
    }

    /// What is known now.
    pub fn current(&self) -> KubeVirtMetadata {
        self.lock().clone()
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

    fn change(&self, change: impl FnOnce(&mut KubeVirtMetadata)) {
        let mut current = self.lock();
        let before = current.clone();
        change(&mut current);
        if *current != before {
            // Without an observer there is nobody to tell.
            let _ = self.facts.send(Fact::Metadata);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, KubeVirtMetadata> {
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
