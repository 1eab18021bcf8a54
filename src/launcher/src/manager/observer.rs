//! The one task that watches: it takes in facts, looks at the domain, moves the state and has
//! virt-handler told. It changes nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::Identity;
use super::connection::Connection;
use super::look::{Look, look};
use super::metadata::{Metadata, now};
use super::state::{Sight, VmState};
use super::trouble::Warner;
use crate::blocking;
use crate::notify::{Fact, Notifier, Publication, Publications};

/// A look is three quick calls.
const LOOK: Duration = Duration::from_secs(10);

/// What the observer works with.
pub struct Observer {
    /// libvirt.
    pub connection: Arc<Connection>,
    /// Which VM to look at; other domains are none of its business.
    pub identity: Identity,
    /// KubeVirt's metadata.
    pub metadata: Arc<Metadata>,
    /// virt-handler.
    pub notifier: Notifier,
    /// Who warns of trouble.
    pub(super) warner: Warner,
    /// Held while the domain is being defined: what is half done is not looked at.
    pub(super) defining: Arc<tokio::sync::Mutex<()>>,
    /// Where the state goes.
    pub state: watch::Sender<VmState>,
}

impl Observer {
    /// Watches until nobody can tell it anything any more.
    pub async fn run(self, mut facts: mpsc::UnboundedReceiver<Fact>) {
        let mut policy = Publications::default();
        while let Some(fact) = facts.recv().await {
            if self.concerns(&fact) {
                if let Fact::Libvirt(event) = &fact {
                    self.warner.observe(event, &self.notifier).await;
                }
                self.observe(&fact, &mut policy).await;
            }
        }
    }

    fn concerns(&self, fact: &Fact) -> bool {
        match fact {
            Fact::Libvirt(event) => event.domain() == Some(self.identity.domain.as_str()),
            Fact::Metadata | Fact::Reconnected | Fact::QemuEnded | Fact::StartingUp => true,
        }
    }

    async fn observe(&self, fact: &Fact, policy: &mut Publications) {
        let publications = policy.observe(fact);
        if publications.is_empty() {
            return;
        }
        tracing::debug!(fact = ?fact, "domain event");
        let Some(seen) = self.look().await else {
            // libvirt is silent; the process is the last witness.
            if *fact == Fact::QemuEnded {
                self.state
                    .send_modify(|state| *state = state.observe_qemu_ended());
            }
            return;
        };
        let sight = seen.sight();
        if sight == Sight::Nothing && *self.state.borrow() == VmState::Absent {
            // A definition that failed half-way: nobody has heard of this domain.
            return;
        }
        for publication in &publications {
            let told = if publication.starting_up {
                seen.clone().starting_up()
            } else {
                Some(seen.clone())
            };
            if let Some(told) = told {
                self.publish(told, publication);
                policy.observe_told(sight == Sight::On);
            }
        }
        self.state.send_if_modified(|state| {
            let mut next = state.observe(sight);
            if *fact == Fact::QemuEnded {
                next = next.observe_qemu_ended();
            }
            std::mem::replace(state, next) != next
        });
    }

    async fn look(&self) -> Option<Look> {
        let _defined = self.defining.lock().await;
        let hypervisor = self.connection.hypervisor();
        let domain = self.identity.domain.clone();
        match blocking::call("looking at the domain", LOOK, move || {
            look(&*hypervisor, &domain)
        })
        .await
        {
            Ok(Ok(seen)) => Some(seen),
            Ok(Err(error)) => {
                tracing::error!(reason = %error, "could not look at the domain after an event");
                None
            }
            Err(error) => {
                tracing::error!(reason = %error, "could not look at the domain after an event");
                None
            }
        }
    }

    fn publish(&self, seen: Look, publication: &Publication) {
        let (metadata, version) = if publication.with_metadata {
            self.metadata.to_tell()
        } else {
            Default::default()
        };
        let gone = seen.is_gone();
        tracing::info!(
            event = publication.event_type.as_str(),
            status = %seen.status,
            reason = seen.reason,
            "domain {}",
            self.identity.domain
        );
        let mut domain = seen.domain(&self.identity, metadata);
        if gone && publication.may_be_last {
            domain.metadata.deletion_timestamp = Some(now());
        }
        self.warner.complete(&mut domain.status);
        match domain.to_json() {
            Ok(json) => self.notifier.domain_event(publication.event_type, json),
            Err(error) => tracing::error!(reason = %error, "could not encode the domain"),
        }
        if publication.with_metadata {
            self.metadata.done(version);
        }
    }
}
