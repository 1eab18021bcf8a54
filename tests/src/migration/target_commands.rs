//! The commands that the tests send to the target's launcher during a migration, and the wait for its last event.

use anyhow::{Result, ensure};
use proto::cmd::v1::{Response, VmiRequest};

use super::{MIGRATION_TIMEOUT, MigrationPods, Proxies, has_ended, migrating, migration_of};
use crate::emulated_virt_handler::Event;
use crate::vmi_builder::Vmi;

impl MigrationPods {
    /// Prepares the target for the migration `uid`, and connects its sockets with the source's pod.
    pub async fn prepare_target(&self, vmi: &Vmi, uid: &str) -> Result<Proxies> {
        let answer = self.sync_target(&migrating(vmi, uid)).await?;
        ensure!(answer.success, "SyncMigrationTarget: {}", answer.message);
        Proxies::start(&self.source.pod, &self.target.pod, vmi.uid())
    }

    /// `SyncMigrationTarget`.
    pub async fn sync_target(&self, vmi: &Vmi) -> Result<Response> {
        let mut commands = self.target.commands.raw.clone();
        Ok(commands
            .sync_migration_target(vmi.request())
            .await?
            .into_inner())
    }

    /// `SignalTargetPodCleanup`.
    pub async fn clean_up_target(&self, vmi: &Vmi) -> Result<Response> {
        let mut commands = self.target.commands.raw.clone();
        Ok(commands
            .signal_target_pod_cleanup(vmi.request())
            .await?
            .into_inner())
    }

    /// `FinalizeVirtualMachineMigration`.
    pub async fn finalize(&self, vmi: &Vmi) -> Result<Response> {
        let mut commands = self.target.commands.raw.clone();
        let request: VmiRequest = vmi.request();
        Ok(commands
            .finalize_virtual_machine_migration(request)
            .await?
            .into_inner())
    }

    /// Waits until the target has reported the end of the migration `uid`.
    pub async fn wait_for_target_end(&self, uid: &str) -> Result<Event> {
        let ended = |event: &Event| has_ended(event, uid);
        self.target
            .handler
            .wait_for(
                "the migration's end on the target",
                0,
                MIGRATION_TIMEOUT,
                ended,
            )
            .await
    }

    /// Waits until the target has reported the end of a migration.
    pub async fn wait_for_any_target_end(&self) -> Result<Event> {
        let ended = |event: &Event| !migration_of(event)["EndTimestamp"].is_null();
        self.target
            .handler
            .wait_for(
                "the migration's end on the target",
                0,
                MIGRATION_TIMEOUT,
                ended,
            )
            .await
    }
}
