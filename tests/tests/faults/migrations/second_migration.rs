//! The second migration of a row, which must succeed.

use anyhow::{Context, Result, ensure};
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::LauncherFixture;
use tests::migration::{MIGRATION_TIMEOUT, MigrationPods, Proxies, has_ended, migration_of};
use tests::vmi_builder::Vmi;

use super::migration_options::migration_options;
use super::migration_row::{MigrationPhase, Side, Target};
use super::migration_row_run::MigrationRowRun;
use super::row_vmi_and_pods::{RunningVm, in_migration, start_target};

impl MigrationRowRun {
    /// Migrates from the side that runs the VM to a new pod, which must succeed.
    pub(crate) async fn migrate_again(&mut self, side: Side) -> Result<RunningVm> {
        let vmi = self.vmi()?.clone();
        let (uid, host) = (self.next_uid(), self.host + 1);
        let MigrationPods { source, target } = self.pods.take().context("no pods run")?;
        let source = match side {
            Side::Source => drop_ended(target, source),
            Side::Target => drop_ended(source, target),
        };
        self.proxies.take();
        let first_event_index = source.handler.events().len();
        let target = start_target(&vmi, host, Target::Plain).await?;
        self.pods = Some(MigrationPods { source, target });
        let result = self
            .migrate_successfully(&vmi, &uid, first_event_index)
            .await;
        result.context("the second migration")?;
        let MigrationPods { mut source, target } = self.pods.take().context("no pods run")?;
        source.commands.delete(&vmi).await?.accepted()?;
        source.expect_exit_code(0).await?;
        source.pod.suppress_log();
        target.wait_for_agent(&vmi).await?;
        Ok(RunningVm {
            launcher: target,
            vmi,
            host,
        })
    }

    async fn migrate_successfully(
        &mut self,
        vmi: &Vmi,
        uid: &str,
        first_event_index: usize,
    ) -> Result<()> {
        let pods = self.pods.as_ref().context("no pods run")?;
        let (migrating, options) = (
            in_migration(vmi, uid),
            migration_options(MigrationPhase::Ended),
        );
        let answer = pods.sync_target(&migrating).await?;
        ensure!(answer.success, "SyncMigrationTarget: {}", answer.message);
        let _proxies = Proxies::start(&pods.source.pod, &pods.target.pod, vmi.uid())?;
        pods.migrate(&migrating, &options).await?.accepted()?;
        let ended = |event: &Event| has_ended(event, uid);
        let handler = &pods.source.handler;
        let end = handler.wait_for(
            "the migration's end",
            first_event_index,
            MIGRATION_TIMEOUT,
            ended,
        );
        let end = end.await?;
        let record = migration_of(&end);
        ensure!(record["Failed"] != true, "{record}");
        pods.wait_for_any_target_end().await?;
        let answer = pods.finalize(&migrating).await?;
        ensure!(answer.success, "{}", answer.message);
        pods.target.commands.sync(vmi).await?.accepted()
    }
}

/// Drops the launcher of the side that ended, and returns the launcher of the other side.
fn drop_ended(mut ended: LauncherFixture, survivor: LauncherFixture) -> LauncherFixture {
    ended.pod.suppress_log();
    drop(ended);
    survivor
}
