//! Updates the watch channels that other tasks read: the VM's phase, the link to the guest agent, and the stage of an
//! incoming migration.

use kubevirt_api::domain_state::LifeCycle;
use libvirt::Event;

use super::Observer;
use crate::guest_agent::AgentLink;
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

    pub(super) fn update_phase(&self, presence: Presence) {
        self.phase.send_if_modified(|state| {
            let next = state.observe(presence);
            std::mem::replace(state, next) != next
        });
    }
}
