//! Successful migrations between two launchers with MigrateVirtualMachine.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::EVENT_TIMEOUT;
use tests::migration::{MigrationPods, migrating, migration_of, stock_options};
use tests::not_tested::{Missing, not_tested};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

pub(crate) const UID: &str = "4d4d0000-0000-4000-8000-000000000011";
pub(crate) const NEXT_UID: &str = "4d4d0000-0000-4000-8000-000000000012";

/// The events with a record of the migration, without repetitions, each as
/// `STATE MODE abort=ABORTSTATUS ended failed`.
pub(crate) fn migration_states(events: &[Event]) -> Vec<String> {
    let mut migration_states: Vec<String> = events
        .iter()
        .filter(|event| !migration_of(event).is_null())
        .map(|event| {
            let record = migration_of(event);
            let word = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
            let mut words = vec![event.state(), word("Mode")];
            let abort = word("AbortStatus");
            words.extend((!abort.is_empty()).then(|| format!("abort={abort}")));
            words.extend((!record["EndTimestamp"].is_null()).then(|| "ended".to_owned()));
            words.extend((record["Failed"] == true).then(|| "failed".to_owned()));
            words.retain(|word| !word.is_empty());
            words.join(" ")
        })
        .collect();
    migration_states.dedup();
    migration_states
}

/// Boots a VM on the source of two pods.
pub(crate) async fn boot_pods(name: &str, user: LauncherUser) -> Result<(MigrationPods, Vmi)> {
    let vmi = Vmi::new(name, user);
    let pods = MigrationPods::start(user, &vmi).await?;
    pods.source.boot_without_controller(&vmi).await?;
    pods.source.wait_for_agent(&vmi).await?;
    Ok((pods, vmi))
}

async fn check_migration(user: LauncherUser) -> Result<()> {
    let (pods, vmi) = boot_pods("moves", user).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &stock_options())
        .await?
        .accepted()?;
    let repeated = pods
        .migrate(&migrating(&vmi, UID), &stock_options())
        .await?;
    ensure!(repeated.success, "the same UID has no effect: {repeated:?}");
    pods.wait_for_any_target_end().await?;
    let end = pods.wait_for_source_end(UID).await?;
    ensure!(end.state() == "Shutoff/Migrated", "{end}");
    let migration_states = migration_states(&pods.source.handler.events());
    let (first, last) = (
        migration_states.first().context("no event")?,
        migration_states.last().context("no event")?,
    );
    ensure!(first == "Running/Unknown PreCopy", "{migration_states:#?}");
    ensure!(
        last == "Shutoff/Migrated PreCopy ended",
        "{migration_states:#?}"
    );
    let after_end = pods
        .migrate(&migrating(&vmi, UID), &stock_options())
        .await?;
    ensure!(
        after_end.message.contains("already executed"),
        "{after_end:?}"
    );
    pods.target.commands.sync(&vmi).await?.accepted()?;
    pods.target.wait_for_agent(&vmi).await?;
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_moves_and_the_source_ends_nonroot() -> Result<()> {
    check_migration(LauncherUser::Nonroot).await
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_moves_and_the_source_ends_root() -> Result<()> {
    check_migration(LauncherUser::Root).await
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_guest_arrives_paused() -> Result<()> {
    let (pods, vmi) = boot_pods("paused", LauncherUser::Nonroot).await?;
    pods.source.commands.pause(&vmi).await?.accepted()?;
    pods.source
        .handler
        .wait_for_state("Paused/User", 0, EVENT_TIMEOUT)
        .await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &stock_options())
        .await?
        .accepted()?;
    let arrived = pods.wait_for_any_target_end().await?;
    ensure!(arrived.state() == "Paused/User", "{arrived}");
    pods.wait_for_source_end(UID).await?;
    let target = pods.end_source(&vmi).await?;
    target.commands.unpause(&vmi).await?.accepted()?;
    target.wait_for_agent(&vmi).await?;
    target.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_continues_on_the_target_by_post_copy() -> Result<()> {
    if !Path::new("/dev/userfaultfd").exists() {
        return not_tested("post-copy", Missing::MachineFeature("/dev/userfaultfd"));
    }
    let (pods, vmi) = boot_pods("ahead", LauncherUser::Nonroot).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    let options = json!({"Bandwidth": "10Mi", "CompletionTimeoutPerGiB": 1, "AllowPostCopy": true,
        "AllowWorkloadDisruption": true});
    pods.migrate(&migrating(&vmi, UID), &options)
        .await?
        .accepted()?;
    pods.wait_for_any_target_end().await?;
    let end = pods.wait_for_source_end(UID).await?;
    let record = migration_of(&end);
    ensure!(
        record["Mode"] == "PostCopy" && record["Failed"] != true,
        "{record}"
    );
    pods.target.wait_for_agent(&vmi).await?;
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn local_disks_are_copied() -> Result<()> {
    let user = LauncherUser::Nonroot;
    let vmi = Vmi::new("disks", user)
        .empty_disk("scratch", "32Mi")
        .cloud_init("#cloud-config\n");
    let vmi = vmi.edit(|vmi| {
        vmi["status"]["volumeStatus"] =
            json!([{"name": "cloudinit", "target": "vdb", "size": 1_048_576}]);
    });
    let pods = MigrationPods::start(user, &vmi).await?;
    pods.source.boot_without_controller(&vmi).await?;
    pods.source.wait_for_agent(&vmi).await?;
    let block_migration = |vmi: &Vmi| {
        let migrating = migrating(vmi, UID);
        migrating.edit(|vmi| vmi["status"]["migrationMethod"] = json!("BlockMigration"))
    };
    let _proxies = pods.prepare_target(&block_migration(&vmi), UID).await?;
    pods.migrate(&block_migration(&vmi), &stock_options())
        .await?
        .accepted()?;
    let end = pods.wait_for_source_end(UID).await?;
    ensure!(
        migration_of(&end)["Failed"] != true,
        "{}",
        migration_of(&end)
    );
    pods.wait_for_any_target_end().await?;
    pods.target.wait_for_agent(&vmi).await?;
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}
