//! Live migration of a simulated domain.

use super::domain_handle::FakeDomain;
use super::{Call, simulated_migration};
use crate::error::Result;
use crate::migration::{Migration, MigrationRequest};

impl Migration for FakeDomain {
    fn migrate(&self, destination: &str, request: &MigrationRequest) -> Result<()> {
        let failure = self.connection.daemon.record_call(Call::Migrate);
        self.connection.must_be_open()?;
        simulated_migration::run(&self.connection, &self.name, destination, request, failure)
    }

    fn set_max_downtime(&self, milliseconds: u64) -> Result<()> {
        self.with_domain(Call::SetMaxDowntime, |domain| {
            simulated_migration::running(domain)?.set_max_downtime(milliseconds)
        })?;
        self.connection
            .daemon
            .controls(|controls| controls.max_downtimes.push(milliseconds));
        Ok(())
    }

    fn start_post_copy(&self) -> Result<()> {
        self.change(Call::StartPostCopy, |domain| {
            simulated_migration::running(domain)?.start_post_copy()?;
            Ok(simulated_migration::switch_to_post_copy(domain))
        })
    }
}
