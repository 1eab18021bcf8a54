//! Builds notifications of the domain and hands them to the notifier, unless they have to wait for the end of a
//! migration.

use std::sync::atomic::Ordering;

use domain::libvirt_spec::DomainJson;
use kubevirt_api::domain_metadata::KubeVirtMetadata;
use kubevirt_api::domain_state::{LifeCycle, reason};

use super::super::kubevirt_metadata::now;
use super::super::last_notification::{LastNotification, Notification};
use super::super::vm_identity::Identity;
use super::{Observer, ObserverHistory};
use crate::libvirt_client::{DomainSnapshot, Presence};
use crate::notify::{EventType, Publication};

impl Observer {
    /// Publishes a start with the domain as it was last read: libvirt answers queries about the domain only after the
    /// start, and the notification has to be sent before.
    pub(super) fn publish_start(&self, publication: &Publication, history: &mut ObserverHistory) {
        if !self.start_notification.is_unreported() {
            return;
        }
        if let Some(spec) = history.spec() {
            self.publish(DomainSnapshot::starting_up(spec), publication, history);
            history.policy.observe_published(true);
        }
    }

    /// Publishes the end of a domain that libvirt no longer knows, with the domain as it was last read.
    pub(super) fn publish_end(&self, history: &mut ObserverHistory) {
        if let Some(spec) = history.spec() {
            let ended = DomainSnapshot::shut_off(spec, history.end.reason());
            self.publish(ended, &Publication::MODIFIED, history);
        }
    }

    /// Publishes a snapshot, with KubeVirt's metadata if the publication asks for them.
    pub(super) fn publish(
        &self,
        snapshot: DomainSnapshot,
        publication: &Publication,
        history: &mut ObserverHistory,
    ) {
        let (metadata, version) = if publication.with_metadata {
            self.metadata.to_publish()
        } else {
            Default::default()
        };
        self.notify(snapshot, metadata, publication, history);
        // Last, because the launcher flushes the notifier and exits once its last metadata are marked.
        if publication.with_metadata {
            self.metadata.mark_published(version);
        }
    }

    /// Notifies virt-handler, unless that would repeat the last notification.
    fn notify(
        &self,
        snapshot: DomainSnapshot,
        metadata: KubeVirtMetadata,
        publication: &Publication,
        history: &mut ObserverHistory,
    ) {
        let is_gone = snapshot.is_gone();
        let alive = snapshot.presence() == Presence::Active;
        let Identity {
            namespace,
            name,
            uid,
            ..
        } = &self.identity;
        let mut domain = snapshot.domain(namespace, name, uid, metadata);
        self.alert_reporter.add_panic(&mut domain.status);
        self.guest_info.add_to_notification(&mut domain.status);
        let json = match domain.to_json() {
            Ok(json) => json,
            Err(error) => return log_encoding_error(&error),
        };
        let notification = Notification {
            event_type: publication.event_type,
            json,
        };
        let repeated = history.last_notification.receipt_of_equal(&notification);
        let receipt = match repeated {
            Some(receipt) => receipt,
            None => {
                self.log_notification(&domain, publication.event_type);
                let json = match is_gone {
                    true => with_deletion_timestamp(domain),
                    false => Ok(notification.json.clone()),
                };
                let json = match json {
                    Ok(json) => json,
                    Err(error) => return log_encoding_error(&error),
                };
                let sent = self
                    .notifier
                    .domain_event(publication.event_type, alive, json);
                history.last_notification = LastNotification::new(notification, sent.clone());
                sent
            }
        };
        if alive && self.start_notification.is_unreported() {
            self.start_notification.observe(receipt);
        }
    }

    fn log_notification(&self, domain: &DomainJson, event_type: EventType) {
        tracing::info!(
            event = event_type.as_str(),
            status = %domain.status.status,
            reason = domain.status.reason,
            request = self.last_request.load(Ordering::Relaxed),
            "domain {}",
            self.identity.domain
        );
    }

    /// Whether the notification that the domain does not exist has to wait for libvirt's event of that.
    ///
    /// Events that are handled late find the domain gone before its last event is handled. virt-handler would
    /// forget the domain, and with it the end of a migration whose event is still to come.
    pub(super) fn awaits_deletion(&self, history: &ObserverHistory) -> bool {
        self.deletes_domain_by_event && !history.policy.is_deleted()
    }

    /// Whether the notification of this snapshot has to wait for the end of the migration.
    ///
    /// virt-handler deletes a domain that has migrated, so it is notified of that state only with the end of the
    /// migration, which follows within milliseconds. If libvirt's daemon dies during the switch to the target, the next
    /// one reports a crash, for which virt-handler would fail the VMI. That state also waits until the target was
    /// asked, and is dropped if the guest runs there.
    pub(super) fn awaits_end_of_migration(&self, snapshot: &DomainSnapshot) -> bool {
        if snapshot.status != LifeCycle::Shutoff {
            return false;
        }
        let Some(record) = self.metadata.current().migration else {
            return false;
        };
        let has_ended = record.end_timestamp.is_some();
        match snapshot.reason {
            reason::MIGRATED => !has_ended,
            // The migration may have ended after the snapshot was taken.
            reason::CRASHED if self.job_events.is_stopped_for_switch() => {
                !has_ended || !record.failed
            }
            _ => false,
        }
    }
}

/// virt-handler removes a domain with a deletion timestamp from its cache.
fn with_deletion_timestamp(mut domain: DomainJson) -> serde_json::Result<Vec<u8>> {
    domain.metadata.deletion_timestamp = Some(now());
    domain.to_json()
}

fn log_encoding_error(error: &serde_json::Error) {
    tracing::error!(reason = %error, "could not encode the domain");
}
