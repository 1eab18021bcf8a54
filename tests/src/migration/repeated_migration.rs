//! A VM that migrates to and fro between two pods.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    CompletedJob, MigrationPods, PreparedMigration, Proxies, completed_job, migrating, migration_of,
};
use crate::launcher_fixture::{LauncherFixture, PreparedPod};
use crate::vmi_builder::Vmi;

/// One migration that has succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    /// From the request to the notification of the target's EndTimestamp.
    pub request_to_end: Duration,
    /// libvirt's statistics of the source.
    pub job: CompletedJob,
}

/// A migration that was cancelled while memory was transferred.
#[derive(Clone, Copy, Debug)]
pub struct CancelledTrip {
    /// From the cancellation to the notification of the source's EndTimestamp.
    pub cancel_to_end: Duration,
}

/// The VM, and the pod that it left last. The pods' directories stay, as those of a container that is started again.
#[derive(Debug)]
pub struct Shuttle {
    here: LauncherFixture,
    there: PreparedPod,
    vmi: Vmi,
    /// Of both launchers.
    arguments: Vec<String>,
    migrations: u32,
}

impl Shuttle {
    /// Boots `vmi` in the source's pod, and waits for its agent. `arguments` are for all launchers.
    pub async fn boot(
        mut prepared: PreparedMigration,
        vmi: Vmi,
        arguments: &[&str],
    ) -> Result<Shuttle> {
        prepared.source.pod.suppress_log();
        prepared.target.pod.suppress_log();
        let here = prepared.source.start(&vmi, arguments).await?;
        here.boot_without_controller(&vmi).await?;
        here.wait_for_agent(&vmi).await?;
        Ok(Shuttle {
            here,
            there: prepared.target,
            vmi,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            migrations: 0,
        })
    }

    /// The launcher whose VM runs.
    pub fn launcher(&self) -> &LauncherFixture {
        &self.here
    }

    /// The pod that the VM left last, in which nothing runs.
    pub fn empty_pod(&self) -> &PreparedPod {
        &self.there
    }

    /// Its VMI.
    pub fn vmi(&self) -> &Vmi {
        &self.vmi
    }

    /// Starts a launcher in the empty pod, and prepares it for the next migration. Returns the migration's UID.
    async fn prepare(self) -> Result<(MigrationPods, Vmi, Vec<String>, Proxies, u32)> {
        let Shuttle {
            here,
            there,
            vmi,
            arguments,
            migrations,
        } = self;
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let target = there.start(&vmi, &words).await?;
        let pods = MigrationPods {
            source: here,
            target,
        };
        let number = migrations + 1;
        let proxies = pods.prepare_target(&vmi, &uid(number)).await?;
        Ok((pods, vmi, arguments, proxies, number))
    }

    /// Migrates the VM to the other pod, and ends the one that it left.
    pub async fn migrate(self, options: &Value) -> Result<(Shuttle, Trip)> {
        let (pods, vmi, arguments, proxies, migrations) = self.prepare().await?;
        let uid = uid(migrations);
        let migrating = migrating(&vmi, &uid);
        let begin = pods.target.handler.now();
        pods.migrate(&migrating, options).await?.ok()?;
        let left = pods.wait_for_source_end(&uid).await?;
        ensure!(
            migration_of(&left)["Failed"] != true,
            "{}",
            migration_of(&left)
        );
        let arrived = pods.wait_for_target_end(&uid).await?;
        let job = completed_job(&pods.source.pod, &vmi).await?;
        let finalized = pods.finalize(&migrating).await?;
        ensure!(finalized.success, "{}", finalized.message);
        pods.target.commands.sync(&vmi).await?.ok()?;
        drop(proxies);
        let MigrationPods { mut source, target } = pods;
        source.commands.delete(&vmi).await?.ok()?;
        source.expect_exit_code(0).await.context("the source")?;
        let trip = Trip {
            request_to_end: arrived.at.saturating_sub(begin),
            job,
        };
        let shuttle = Shuttle {
            here: target,
            there: source.after_exit().await?,
            vmi,
            arguments,
            migrations,
        };
        Ok((shuttle, trip))
    }

    /// Begins a migration and cancels it while memory is transferred; the target's pod ends.
    pub async fn cancel(self, options: &Value) -> Result<(Shuttle, CancelledTrip)> {
        let (pods, vmi, arguments, proxies, migrations) = self.prepare().await?;
        let uid = uid(migrations);
        let migrating = migrating(&vmi, &uid);
        let mark = pods.target.handler.events().len();
        pods.migrate(&migrating, options).await?.ok()?;
        let handler = &pods.target.handler;
        let limit = super::MIGRATION;
        handler
            .wait_for_state("Paused/Migration", mark, limit)
            .await?;
        let begin = pods.source.handler.now();
        pods.cancel(&vmi).await?.ok()?;
        let end = pods.wait_for_source_end(&uid).await?;
        ensure!(
            migration_of(&end)["AbortStatus"] == "Succeeded",
            "{}",
            migration_of(&end)
        );
        drop(proxies);
        let MigrationPods { source, mut target } = pods;
        target.expect_exit_code(0).await.context("the target")?;
        let trip = CancelledTrip {
            cancel_to_end: end.at.saturating_sub(begin),
        };
        let shuttle = Shuttle {
            here: source,
            there: target.after_exit().await?,
            vmi,
            arguments,
            migrations,
        };
        Ok((shuttle, trip))
    }

    /// Ends the VM and its pod; the other one is dropped.
    pub async fn end(self) -> Result<()> {
        self.here.end_vm(&self.vmi).await
    }
}

fn uid(number: u32) -> String {
    format!("4d4d0000-0000-4000-8000-{number:012}")
}
