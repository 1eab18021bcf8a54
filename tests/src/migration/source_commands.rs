//! The commands that the tests send to the source's launcher during a migration, and the wait for its last event.

use anyhow::Result;
use proto::cmd::v1::MigrationRequest;
use serde_json::Value;

use super::{MIGRATION_TIMEOUT, MigrationPods, has_ended};
use crate::emulated_virt_handler::{Answer, Event};
use crate::vmi_builder::Vmi;

impl MigrationPods {
    /// `MigrateVirtualMachine`.
    pub async fn migrate(&self, vmi: &Vmi, options: &Value) -> Result<Answer> {
        let request = MigrationRequest {
            vmi: vmi.request().vmi,
            options: options.to_string().into_bytes(),
        };
        let mut commands = self.source.commands.raw.clone();
        let answer = commands.migrate_virtual_machine(request).await?;
        Ok(Answer::of(Some(answer.into_inner())))
    }

    /// `CancelVirtualMachineMigration`.
    pub async fn cancel(&self, vmi: &Vmi) -> Result<Answer> {
        let mut commands = self.source.commands.raw.clone();
        let answer = commands
            .cancel_virtual_machine_migration(vmi.request())
            .await?;
        Ok(Answer::of(Some(answer.into_inner())))
    }

    /// Waits until the source has reported the end of the migration `uid`.
    pub async fn wait_for_source_end(&self, uid: &str) -> Result<Event> {
        let ended = |event: &Event| has_ended(event, uid);
        self.source
            .handler
            .wait_for(
                "the migration's end on the source",
                0,
                MIGRATION_TIMEOUT,
                ended,
            )
            .await
    }
}
