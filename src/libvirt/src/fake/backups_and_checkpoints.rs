//! Backups and checkpoints of a simulated domain.

use super::domain_handle::FakeDomain;
use super::{Call, simulated_backup};
use crate::backups_and_checkpoints::Checkpoints;
use crate::error::Result;

impl Checkpoints for FakeDomain {
    fn begin_backup(&self, backup_xml: &str, checkpoint_xml: &str) -> Result<()> {
        self.connection.begin_call(Call::BeginBackup)?;
        simulated_backup::begin(&self.connection, &self.name, backup_xml, checkpoint_xml)
    }

    fn redefine_checkpoint(&self, xml: &str) -> Result<()> {
        self.with_domain(Call::RedefineCheckpoint, |domain| {
            simulated_backup::redefine_checkpoint(domain, xml)
        })
    }
}
