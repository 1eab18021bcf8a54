//! Publishes the domain again after libvirt's events may have been lost.

use kubevirt_api::domain_state::{LifeCycle, reason};
use libvirt::{Detail, Event, LifecycleEvent};

use super::observer_snapshots::with_snapshot_timeout;
use super::{Observer, ObserverHistory};
use crate::libvirt_client::DomainSnapshot;
use crate::vm_events::VmEvent;

const DOMAIN_NOT_READ: &str = "the domain could not be read";

impl Observer {
    /// Publishes the domain as it is now, after events may have been lost. Is repeated later if libvirt gives no
    /// answer.
    pub(super) async fn resync(&self, history: &mut ObserverHistory) {
        let result = self.try_resync(history).await;
        history.observe_resync(result);
    }

    /// Repeats the part of the resync that libvirt did not answer; what was published is not published again.
    pub(super) async fn retry_resync(&self, history: &mut ObserverHistory) {
        if history.is_pause_unreported && !history.last_read_failed {
            let result = self.report_pause(history).await;
            history.observe_resync(result);
        } else {
            self.resync(history).await;
        }
    }

    async fn try_resync(&self, history: &mut ObserverHistory) -> Result<(), String> {
        history.is_pause_unreported = false;
        let lost_events = self.lost_incoming_events().await?;
        if lost_events.is_empty() {
            history.last_read_failed = false;
            self.observe(&VmEvent::Republish, history).await;
            if history.last_read_failed {
                return Err(DOMAIN_NOT_READ.to_owned());
            }
            return self.report_pause(history).await;
        }
        for (event, detail) in lost_events {
            let domain = self.identity.domain.clone();
            let event = VmEvent::Libvirt(Event::Lifecycle {
                domain,
                event,
                detail,
            });
            history.last_read_failed = false;
            self.observe(&event, history).await;
            if history.last_read_failed {
                return Err(DOMAIN_NOT_READ.to_owned());
            }
            self.update_incoming_stage(&event);
        }
        Ok(())
    }

    /// Sends the alert of disk errors that have paused the VM while events were lost.
    async fn report_pause(&self, history: &mut ObserverHistory) -> Result<(), String> {
        history.is_pause_unreported = true;
        let is_paused = |snapshot: &&DomainSnapshot| {
            snapshot.status == LifeCycle::Paused && snapshot.reason == reason::IO_ERROR
        };
        if let Some(snapshot) = history.last_snapshot.as_ref().filter(is_paused) {
            let errors = with_snapshot_timeout(self.client.disk_errors(snapshot)).await?;
            self.alert_reporter
                .observe_pause(errors, &self.notifier)
                .await;
        }
        history.is_pause_unreported = false;
        Ok(())
    }

    /// The lost events of an incoming migration, derived from the domain's state.
    async fn lost_incoming_events(&self) -> Result<Vec<(LifecycleEvent, Detail)>, String> {
        let stage = *self.incoming_migration.borrow();
        if !stage.is_under_way() {
            return Ok(Vec::new());
        }
        let domain = with_snapshot_timeout(self.client.lookup_with_state()).await?;
        Ok(stage.lost_events(domain.map(|(_, state)| state)))
    }
}
