//! Two pods side by side, between which a VM migrates, with virt-handler's proxies between their sockets.

pub mod guest_load;
mod proxies;
mod repeated_migration;
mod source_commands;
mod target_commands;
mod virsh;

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::launcher_fixture::{LauncherFixture, PreparedPod};
use crate::pod::LauncherUser;
use crate::pod_semaphore;
use crate::virt_handler::Event;
use crate::vmi_builder::Vmi;

pub use proxies::Proxies;
pub use repeated_migration::{CancelledTrip, Shuttle, Trip};
pub use virsh::{
    CompletedJob, completed_job, defined_domains, inactive_xml, migratable_xml, migrate,
    qemu_command,
};

/// `POD_NAME` in the two pods.
pub const SOURCE_POD: &str = "virt-launcher-source";
/// As [`SOURCE_POD`].
pub const TARGET_POD: &str = "virt-launcher-target";
/// How long a migration may take: an idle guest, emulated, on a busy machine.
pub const MIGRATION: Duration = Duration::from_secs(60);

/// A pod called `name` on the host of this number, as libvirt sees it: libvirt refuses to migrate a VM to its own host.
pub fn prepare_pod(user: LauncherUser, host: u32, name: &str) -> Result<PreparedPod> {
    let mut prepared = PreparedPod::create(user)?;
    let host = format!("5f0c0e0e-6f3d-4a53-9d0c-{host:012}");
    prepared.pod.set_host_uuid(&host)?;
    prepared.pod.set_env("POD_NAME", name);
    prepared.pod.install_libvirt_hook()?;
    Ok(prepared)
}

/// Two pods in which no launcher runs yet.
#[derive(Debug)]
pub struct PreparedMigration {
    /// Where the VM runs first.
    pub source: PreparedPod,
    /// Where it is to arrive.
    pub target: PreparedPod,
}

impl PreparedMigration {
    /// Two pods on two hosts, as libvirt sees it.
    pub fn create(user: LauncherUser) -> Result<PreparedMigration> {
        let _pair = pod_semaphore::acquire_pair()?;
        Ok(PreparedMigration {
            source: prepare_pod(user, 1, SOURCE_POD)?,
            target: prepare_pod(user, 2, TARGET_POD)?,
        })
    }

    /// Starts both launchers; `extra` are arguments of the target's.
    pub async fn start(self, vmi: &Vmi, extra: &[&str]) -> Result<MigrationPods> {
        let (source, target) =
            tokio::try_join!(self.source.start(vmi, &[]), self.target.start(vmi, extra))?;
        Ok(MigrationPods { source, target })
    }
}

/// Two pods whose launchers are ready.
#[derive(Debug)]
pub struct MigrationPods {
    /// Where the VM runs first.
    pub source: LauncherFixture,
    /// Where it is to arrive.
    pub target: LauncherFixture,
}

impl MigrationPods {
    /// Both pods with their launchers.
    pub async fn start(user: LauncherUser, vmi: &Vmi) -> Result<MigrationPods> {
        PreparedMigration::create(user)?.start(vmi, &[]).await
    }

    /// Deletes the VM on the source, from which it has migrated, whose launcher then ends; the target is left.
    pub async fn end_source(mut self, vmi: &Vmi) -> Result<LauncherFixture> {
        self.source.commands.delete(vmi).await?.ok()?;
        self.source.expect_exit_code(0).await?;
        Ok(self.target)
    }

    /// The same source with another launcher in the target's pod, after that has ended.
    pub async fn restart_target(self, vmi: &Vmi) -> Result<MigrationPods> {
        let MigrationPods { source, mut target } = self;
        target.expect_exit_code(0).await?;
        let target = target.after_exit().await?.start(vmi, &[]).await?;
        Ok(MigrationPods { source, target })
    }
}

/// The record of the migration in a domain event; null if there is none.
pub fn migration_of(event: &Event) -> &Value {
    &event.metadata()["Migration"]
}

/// The VMI as virt-handler sends it during the migration `uid`, over UNIX sockets.
pub fn migrating(vmi: &Vmi, uid: &str) -> Vmi {
    let uid = uid.to_owned();
    vmi.clone().edit(|vmi| {
        let status = &mut vmi["status"];
        status["phase"] = json!("Running");
        status["migrationTransport"] = json!("Unix");
        status["migrationMethod"] = json!("LiveMigration");
        status["migrationState"] = json!({
            "migrationUid": uid,
            "sourceNode": "node01", "targetNode": "node02",
            "sourcePod": SOURCE_POD, "targetPod": TARGET_POD,
        });
    })
}

/// Whether the event has the end of the migration `uid`.
pub fn has_ended(event: &Event, uid: &str) -> bool {
    let record = migration_of(event);
    record["UID"] == uid && !record["EndTimestamp"].is_null()
}

/// virt-handler's options of a stock cluster.
pub fn stock_options() -> Value {
    json!({
        "Bandwidth": "0", "ProgressTimeout": 150, "CompletionTimeoutPerGiB": 150, "MaxDowntimeMs": 900,
        "UnsafeMigration": false, "AllowAutoConverge": false, "AllowPostCopy": false,
        "ParallelMigrationThreads": 8, "AllowWorkloadDisruption": false,
    })
}
