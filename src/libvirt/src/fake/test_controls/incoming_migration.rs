//! What a test makes of a simulated migration to this daemon: arrival, resumption, failure and end.
//!
//! ```text
//! [none] ── begin_incoming ──▶ Paused/Migration ── finish_incoming ──▶ Running or Paused/User ── end_incoming_job ──▶
//! [no job]
//! ```

use super::FakeDaemon;
use crate::domain_state::{DomainState, State};
use crate::error::Result;
use crate::event::{Detail, LifecycleEvent};
use crate::fake::definition_xml::DefinitionXml;
use crate::fake::simulated_domain::SimulatedDomain;
use crate::state_reason::Reason;

/// The state in which a guest arrives: that on the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The guest stays paused.
    Paused,
    /// The guest runs.
    Running,
}

impl FakeDaemon {
    /// Makes a domain arrive from a source. It has a QEMU process, and is transient until
    /// [`FakeDaemon::finish_incoming`].
    ///
    /// # Errors
    /// The XML is not that of a domain.
    pub fn begin_incoming(&self, xml: &str) -> Result<()> {
        let definition = DefinitionXml::parse(xml)?;
        let uuid = definition.uuid.clone().unwrap_or_default();
        let name = definition.name.clone();
        let id = self.daemon.next_number();
        let mut domain = SimulatedDomain::new(definition, uuid);
        domain.active = domain.inactive.take();
        domain.id = id;
        domain.is_incoming = true;
        domain.state = State::new(DomainState::Paused, Reason::Migration);
        self.daemon.insert(domain);
        self.daemon.change(&name, |domain| {
            Ok(vec![
                domain.lifecycle(LifecycleEvent::Started, Detail::Migrated),
            ])
        })
    }

    /// Completes the transfer: libvirt defines the domain with the source's XML, and resumes a guest that arrives
    /// running. The job of the migration continues.
    ///
    /// # Errors
    /// The XML is not that of a domain.
    pub fn finish_incoming(&self, persistent_xml: &str, arrival: Arrival) -> Result<()> {
        let definition = DefinitionXml::parse(persistent_xml)?;
        let name = definition.name.clone();
        self.daemon.change(&name, |domain| {
            domain.inactive = Some(definition);
            let defined = domain.lifecycle(LifecycleEvent::Defined, Detail::Added);
            let (state, event) = match arrival {
                Arrival::Paused => (
                    State::new(DomainState::Paused, Reason::User),
                    domain.lifecycle(LifecycleEvent::Suspended, Detail::Paused),
                ),
                Arrival::Running => (
                    State::new(DomainState::Running, Reason::Migrated),
                    domain.lifecycle(LifecycleEvent::Resumed, Detail::Migrated),
                ),
            };
            domain.state = state;
            Ok(vec![defined, event])
        })
    }

    /// Makes the migration fail: libvirt ends the domain's QEMU without an event.
    pub fn fail_incoming(&self, domain: &str) {
        let _ = self.daemon.change(domain, |domain| {
            domain.end_qemu(Reason::Failed, Detail::Failed);
            Ok(Vec::new())
        });
    }

    /// Ends the job of the migration.
    pub fn end_incoming_job(&self, domain: &str) {
        self.daemon
            .with_domain(domain, |domain| domain.is_incoming = false);
    }
}
