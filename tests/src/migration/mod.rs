//! Two pods between which a VM migrates, with virt-handler's proxies between their sockets.

pub mod guest_memory_load;
mod migrating_vm;
mod proxies;
mod source_commands;
mod target_commands;
mod virsh_migrate;

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::emulated_virt_handler::Event;
use crate::launcher_fixture::{LauncherFixture, PreparedPod};
use crate::pod::LauncherUser;
use crate::pod_semaphore;
use crate::vmi_builder::Vmi;

pub use migrating_vm::{CancelledMigration, CompletedMigration, MigratingVm};
pub use proxies::Proxies;
pub use virsh_migrate::migrate;

/// `POD_NAME` in the source's pod.
pub const SOURCE_POD: &str = "virt-launcher-source";
/// `POD_NAME` in the target's pod.
pub const TARGET_POD: &str = "virt-launcher-target";
/// The time limit of a migration of an idle, emulated guest on a busy machine.
pub const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// A pod called `name` whose libvirt has the host UUID number `host`: libvirt refuses to migrate a VM to the same host.
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
    /// The pod in which the VM boots.
    pub source: PreparedPod,
    /// The pod to which the VM migrates.
    pub target: PreparedPod,
}

impl PreparedMigration {
    /// Two pods whose libvirts have different host UUIDs.
    pub fn create(user: LauncherUser) -> Result<PreparedMigration> {
        let _pair = pod_semaphore::acquire_pair()?;
        Ok(PreparedMigration {
            source: prepare_pod(user, 1, SOURCE_POD)?,
            target: prepare_pod(user, 2, TARGET_POD)?,
        })
    }

    /// Starts both launchers; `extra` are further arguments of the target's launcher.
    pub async fn start(self, vmi: &Vmi, extra: &[&str]) -> Result<MigrationPods> {
        let (source, target) =
            tokio::try_join!(self.source.start(vmi, &[]), self.target.start(vmi, extra))?;
        Ok(MigrationPods { source, target })
    }
}

/// Two pods whose launchers are ready.
#[derive(Debug)]
pub struct MigrationPods {
    /// The pod in which the VM boots.
    pub source: LauncherFixture,
    /// The pod to which the VM migrates.
    pub target: LauncherFixture,
}

impl MigrationPods {
    /// Creates both pods and starts their launchers.
    pub async fn start(user: LauncherUser, vmi: &Vmi) -> Result<MigrationPods> {
        PreparedMigration::create(user)?.start(vmi, &[]).await
    }

    /// Deletes the VM that has migrated on the source, whose launcher then exits. Returns the target.
    pub async fn end_source(mut self, vmi: &Vmi) -> Result<LauncherFixture> {
        self.source.commands.delete(vmi).await?.accepted()?;
        self.source.expect_exit_code(0).await?;
        Ok(self.target)
    }

    /// Waits until the target's launcher has exited, and starts another one in its pod.
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

/// The VMI as virt-handler sends it during the migration `uid`, which uses UNIX sockets.
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

/// Whether the event reports the end of the migration `uid`.
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
