//! A handle to a domain of the fake daemon.

use super::Call;
use super::connection_handle::FakeConnection;
use super::errors::domain_not_found;
use super::simulated_domain::SimulatedDomain;
use crate::domain::Domain;
use crate::domain_state::State;
use crate::error::Result;
use crate::event::Event;
use crate::stats::DomainStats;

/// A domain of the fake daemon, as one connection sees it.
pub(super) struct FakeDomain {
    pub(super) connection: FakeConnection,
    pub(super) name: String,
    uuid: String,
}

impl FakeDomain {
    pub(super) fn new(connection: FakeConnection, name: String, uuid: String) -> Self {
        FakeDomain {
            connection,
            name,
            uuid,
        }
    }

    /// Counts the call and runs `with` on the domain.
    pub(super) fn with_domain<T>(
        &self,
        call: Call,
        with: impl FnOnce(&mut SimulatedDomain) -> Result<T>,
    ) -> Result<T> {
        self.connection.begin_call(call)?;
        let result = self.connection.daemon.with_domain(&self.name, with);
        result.ok_or_else(|| domain_not_found(&self.name))?
    }

    /// Counts the call, changes the domain, and publishes the events.
    pub(super) fn change(
        &self,
        call: Call,
        change: impl FnOnce(&mut SimulatedDomain) -> Result<Vec<Event>>,
    ) -> Result<()> {
        self.connection.begin_call(call)?;
        self.connection.daemon.change(&self.name, change)
    }
}

impl Domain for FakeDomain {
    fn name(&self) -> &str {
        &self.name
    }

    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn is_connected(&self) -> bool {
        self.connection.is_open()
    }

    fn state(&self) -> Result<State> {
        self.with_domain(Call::State, |domain| Ok(domain.state))
    }

    fn stats(&self) -> Result<Option<DomainStats>> {
        self.with_domain(Call::Stats, |domain| {
            Ok(domain.is_active().then(|| DomainStats {
                name: domain.name.clone(),
                uuid: domain.uuid.clone(),
                ..domain.stats.clone()
            }))
        })
    }
}
