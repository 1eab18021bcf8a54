//! Updates the state that other tasks read: the phase, the agent's link and the stage of an incoming migration.

use kubevirt_api::domain_state::{LifeCycle, reason};
use libvirt::Event;

use super::Observer;
use crate::agent::AgentLink;
use crate::libvirt_client::{DomainSnapshot, Presence};
use crate::vm_events::VmEvent;

impl Observer {
    /// Updates whether the guest agent can be asked, which takes a running guest. Each connection of the agent starts a
    /// new session.
    pub(super) fn update_agent_link(&self, event: &VmEvent, snapshot: &DomainSnapshot) {
        let running = snapshot.status == LifeCycle::Running;
        let reachable = running && snapshot.is_agent_connected();
        let connects = matches!(
            event,
            VmEvent::Libvirt(Event::AgentLifecycle {
                connected: true,
                ..
            })
        );
        self.agent_link.send_if_modified(|link| {
            let next = AgentLink {
                reachable,
                session: link.session + u64::from(connects),
            };
            std::mem::replace(link, next) != next
        });
    }

    /// Updates the stage of a migration to this pod. Called after the event was published, because other tasks react to
    /// the stage and publish more.
    pub(super) fn update_incoming_stage(&self, event: &VmEvent) {
        if let VmEvent::Libvirt(event) = event {
            self.incoming_migration.send_if_modified(|stage| {
                let next = stage.observe(event);
                std::mem::replace(stage, next) != next
            });
        }
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

    pub(super) fn update_phase(&self, presence: Presence) {
        self.phase.send_if_modified(|state| {
            let next = state.observe(presence);
            std::mem::replace(state, next) != next
        });
    }
}
