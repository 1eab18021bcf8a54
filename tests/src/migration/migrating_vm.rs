//! A VM that migrates back and forth between two pods.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{MigrationPods, PreparedMigration, Proxies, migrating, migration_of};
use crate::launcher_fixture::{LauncherFixture, PreparedPod};
use crate::virsh::{CompletedJob, completed_job};
use crate::vmi_builder::Vmi;

/// The times and statistics of a successful migration.
#[derive(Clone, Copy, Debug)]
pub struct CompletedMigration {
    /// The time from the request to the notification of the target's EndTimestamp.
    pub request_to_end: Duration,
    /// libvirt's statistics of the source.
    pub job: CompletedJob,
}

/// The times of a migration that was cancelled while memory was transferred.
#[derive(Clone, Copy, Debug)]
pub struct CancelledMigration {
    /// The time from the cancellation to the notification of the source's EndTimestamp.
    pub cancel_to_end: Duration,
}

/// A VM, its pod, and the pod that it left last. The pods' directories are kept, like those of a restarted container.
#[derive(Debug)]
pub struct MigratingVm {
    launcher: LauncherFixture,
    empty_pod: PreparedPod,
    vmi: Vmi,
    /// The arguments of both launchers.
    arguments: Vec<String>,
    migrations: u32,
}

impl MigratingVm {
    /// Boots `vmi` in the source's pod, and waits for its agent. `arguments` are for all launchers.
    pub async fn boot(
        mut prepared: PreparedMigration,
        vmi: Vmi,
        arguments: &[&str],
    ) -> Result<MigratingVm> {
        prepared.source.pod.suppress_log();
        prepared.target.pod.suppress_log();
        let launcher = prepared.source.start(&vmi, arguments).await?;
        launcher.boot_without_controller(&vmi).await?;
        launcher.wait_for_agent(&vmi).await?;
        Ok(MigratingVm {
            launcher,
            empty_pod: prepared.target,
            vmi,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            migrations: 0,
        })
    }

    /// The launcher that runs the VM.
    pub fn launcher(&self) -> &LauncherFixture {
        &self.launcher
    }

    /// The pod that the VM left last, in which nothing runs.
    pub fn empty_pod(&self) -> &PreparedPod {
        &self.empty_pod
    }

    /// The VM's VMI.
    pub fn vmi(&self) -> &Vmi {
        &self.vmi
    }

    /// Starts a launcher in the empty pod, and prepares it as the target of the next migration. The last value
    /// is the number of that migration.
    async fn prepare(self) -> Result<(MigrationPods, Vmi, Vec<String>, Proxies, u32)> {
        let MigratingVm {
            launcher,
            empty_pod,
            vmi,
            arguments,
            migrations,
        } = self;
        let argument_strs: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let target = empty_pod.start(&vmi, &argument_strs).await?;
        let pods = MigrationPods {
            source: launcher,
            target,
        };
        let number = migrations + 1;
        let proxies = pods.prepare_target(&vmi, &uid(number)).await?;
        Ok((pods, vmi, arguments, proxies, number))
    }

    /// Migrates the VM to the other pod, and ends the source's launcher.
    pub async fn migrate(self, options: &Value) -> Result<(MigratingVm, CompletedMigration)> {
        let (pods, vmi, arguments, proxies, migrations) = self.prepare().await?;
        let uid = uid(migrations);
        let migrating = migrating(&vmi, &uid);
        let begin = pods.target.handler.now();
        pods.migrate(&migrating, options).await?.accepted()?;
        let source_end = pods.wait_for_source_end(&uid).await?;
        ensure!(
            migration_of(&source_end)["Failed"] != true,
            "{}",
            migration_of(&source_end)
        );
        let target_end = pods.wait_for_target_end(&uid).await?;
        let job = completed_job(&pods.source.pod, &vmi).await?;
        let finalized = pods.finalize(&migrating).await?;
        ensure!(finalized.success, "{}", finalized.message);
        pods.target.commands.sync(&vmi).await?.accepted()?;
        drop(proxies);
        let MigrationPods { mut source, target } = pods;
        source.commands.delete(&vmi).await?.accepted()?;
        source.expect_exit_code(0).await.context("the source")?;
        let migration = CompletedMigration {
            request_to_end: target_end.at.saturating_sub(begin),
            job,
        };
        let vm = MigratingVm {
            launcher: target,
            empty_pod: source.after_exit().await?,
            vmi,
            arguments,
            migrations,
        };
        Ok((vm, migration))
    }

    /// Starts a migration and cancels it while memory is transferred. The target's pod ends.
    pub async fn cancel(self, options: &Value) -> Result<(MigratingVm, CancelledMigration)> {
        let (pods, vmi, arguments, proxies, migrations) = self.prepare().await?;
        let uid = uid(migrations);
        let migrating = migrating(&vmi, &uid);
        let first_event_index = pods.target.handler.events().len();
        pods.migrate(&migrating, options).await?.accepted()?;
        let handler = &pods.target.handler;
        let limit = super::MIGRATION_TIMEOUT;
        handler
            .wait_for_state("Paused/Migration", first_event_index, limit)
            .await?;
        let begin = pods.source.handler.now();
        pods.cancel(&vmi).await?.accepted()?;
        let end = pods.wait_for_source_end(&uid).await?;
        ensure!(
            migration_of(&end)["AbortStatus"] == "Succeeded",
            "{}",
            migration_of(&end)
        );
        drop(proxies);
        let MigrationPods { source, mut target } = pods;
        target.expect_exit_code(0).await.context("the target")?;
        let migration = CancelledMigration {
            cancel_to_end: end.at.saturating_sub(begin),
        };
        let vm = MigratingVm {
            launcher: source,
            empty_pod: target.after_exit().await?,
            vmi,
            arguments,
            migrations,
        };
        Ok((vm, migration))
    }

    /// Ends the VM and its pod, and drops the other pod.
    pub async fn end(self) -> Result<()> {
        self.launcher.end_vm(&self.vmi).await
    }
}

fn uid(number: u32) -> String {
    format!("4d4d0000-0000-4000-8000-{number:012}")
}
