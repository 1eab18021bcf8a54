//! The target side of a simulated migration.
//!
//! ```text
//!   [none] ── begin_incoming ──▶ Paused/Migration ── resume_incoming ──▶ Running or Paused/User ── end_incoming_job ──▶ [no job]
//! ```

use super::FakeDaemon;
use super::definition_xml::DefinitionXml;
use super::simulated_domain::SimulatedDomain;
use crate::domain_state::{DomainState, Reason, State};
use crate::error::Result;
use crate::event::{Detail, LifecycleEvent};

impl FakeDaemon {
    /// The source sends a domain: it has a QEMU process, and is transient until [`FakeDaemon::resume_incoming`].
    ///
    /// # Errors
    /// XML that is not a domain.
    pub fn begin_incoming(&self, xml: &str) -> Result<()> {
        let config = DefinitionXml::parse(xml)?;
        let uuid = config.uuid.clone().unwrap_or_default();
        let name = config.name.clone();
        let id = self.daemon.next_number();
        let mut domain = SimulatedDomain::new(config, uuid);
        domain.active = domain.inactive.take();
        domain.id = id;
        domain.incoming = true;
        domain.state = State::new(DomainState::Paused, Reason::Migration);
        self.daemon.insert(domain);
        self.daemon.change(&name, |domain| {
            Ok(vec![
                domain.lifecycle(LifecycleEvent::Started, Detail::Migrated),
            ])
        })
    }

    /// The transfer is complete: libvirt defines the domain as the source described it, and the guest runs, unless the
    /// source's was `paused`. The job of the migration goes on.
    ///
    /// # Errors
    /// XML that is not a domain.
    pub fn resume_incoming(&self, persistent_xml: &str, paused: bool) -> Result<()> {
        let config = DefinitionXml::parse(persistent_xml)?;
        let name = config.name.clone();
        self.daemon.change(&name, |domain| {
            domain.inactive = Some(config);
            let defined = domain.lifecycle(LifecycleEvent::Defined, Detail::Added);
            let (state, event) = match paused {
                true => (
                    State::new(DomainState::Paused, Reason::User),
                    domain.lifecycle(LifecycleEvent::Suspended, Detail::Paused),
                ),
                false => (
                    State::new(DomainState::Running, Reason::Migrated),
                    domain.lifecycle(LifecycleEvent::Resumed, Detail::Migrated),
                ),
            };
            domain.state = state;
            Ok(vec![defined, event])
        })
    }

    /// The migration fails: libvirt ends the domain's QEMU without an event.
    pub fn fail_incoming(&self, domain: &str) {
        let _ = self.daemon.change(domain, |domain| {
            domain.ended(Reason::Failed, Detail::Failed);
            Ok(Vec::new())
        });
    }

    /// The job of the migration ends.
    pub fn end_incoming_job(&self, domain: &str) {
        self.daemon
            .with_domain(domain, |domain| domain.incoming = false);
    }
}
