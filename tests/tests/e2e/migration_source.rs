//! Migrations between two launchers through MigrateVirtualMachine, with real libvirt and QEMU on both sides.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{BOOT, EVENT};
use tests::migration::{MigrationPods, migrating, migration_of, stock_options};
use tests::not_tested::{Missing, not_tested};
use tests::pod::LauncherUser;
use tests::virt_handler::Event;
use tests::vmi_builder::Vmi;

const UID: &str = "4d4d0000-0000-4000-8000-000000000011";
const NEXT_UID: &str = "4d4d0000-0000-4000-8000-000000000012";

/// So slow that the migration lasts longer than the test.
fn slow() -> Value {
    json!({"Bandwidth": "1Mi", "ProgressTimeout": 150, "CompletionTimeoutPerGiB": 150})
}

/// The notifications of the source with a record of the migration, as `STATE MODE ABORT ended failed`.
fn story(events: &[Event]) -> Vec<String> {
    let mut story: Vec<String> = events
        .iter()
        .filter(|event| !migration_of(event).is_null())
        .map(|event| {
            let record = migration_of(event);
            let word = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
            let mut words = vec![event.state(), word("Mode"), word("AbortStatus")];
            words.extend((!record["EndTimestamp"].is_null()).then(|| "ended".to_owned()));
            words.extend((record["Failed"] == true).then(|| "failed".to_owned()));
            words.retain(|word| !word.is_empty());
            words.join(" ")
        })
        .collect();
    story.dedup();
    story
}

async fn booted(name: &str, user: LauncherUser) -> Result<(MigrationPods, Vmi)> {
    let vmi = Vmi::new(name, user);
    let pods = MigrationPods::start(user, &vmi).await?;
    pods.source.boot_without_controller(&vmi).await?;
    pods.source.wait_for_agent(&vmi).await?;
    Ok((pods, vmi))
}

/// The guest on the source runs, and its launcher controls it.
async fn source_runs_on(pods: &MigrationPods, vmi: &Vmi) -> Result<()> {
    let answer = pods.source.commands.guest_ping(vmi, 5).await?;
    ensure!(answer.success, "the guest on the source: {answer:?}");
    let domain = pods.source.commands.domain().await?;
    ensure!(domain["Status"]["Status"] == "Running", "{domain}");
    Ok(())
}

async fn migrates(user: LauncherUser) -> Result<()> {
    let (pods, vmi) = booted("moves", user).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &stock_options())
        .await?
        .ok()?;
    let repeated = pods
        .migrate(&migrating(&vmi, UID), &stock_options())
        .await?;
    ensure!(repeated.success, "the same UID has no effect: {repeated:?}");
    pods.wait_for_any_target_end().await?;
    let end = pods.wait_for_source_end(UID).await?;
    ensure!(end.state() == "Shutoff/Migrated", "{end}");
    let story = story(&pods.source.handler.events());
    let (first, last) = (
        story.first().context("no event")?,
        story.last().context("no event")?,
    );
    ensure!(first == "Running/Unknown PreCopy", "{story:#?}");
    ensure!(last == "Shutoff/Migrated PreCopy ended", "{story:#?}");
    let executed = pods
        .migrate(&migrating(&vmi, UID), &stock_options())
        .await?;
    ensure!(
        executed.message.contains("already executed"),
        "{executed:?}"
    );
    pods.target.commands.sync(&vmi).await?.ok()?;
    pods.target.wait_for_agent(&vmi).await?;
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_moves_and_the_source_ends_nonroot() -> Result<()> {
    migrates(LauncherUser::Nonroot).await
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_moves_and_the_source_ends_root() -> Result<()> {
    migrates(LauncherUser::Root).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_migration_leaves_the_vm_and_another_one_succeeds() -> Result<()> {
    let (pods, vmi) = booted("stays", LauncherUser::Nonroot).await?;
    let proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &slow()).await?.ok()?;
    let incoming = pods
        .target
        .handler
        .wait_for_state("Paused/Migration", 0, BOOT);
    incoming.await?;
    let stats = pods.source.commands.domain_stats().await?;
    ensure!(stats["Name"] == vmi.domain(), "{stats}");
    pods.cancel(&vmi).await?.ok()?;
    let end = pods.wait_for_source_end(UID).await?;
    let record = migration_of(&end);
    ensure!(record["AbortStatus"] == "Succeeded", "{record}");
    ensure!(
        record["FailureReason"] == "Live migration has been aborted",
        "{record}"
    );
    let story = story(&pods.source.handler.events());
    let expected = [
        "Running/Unknown PreCopy",
        "Running/Unknown PreCopy Aborting",
        "Running/Unknown PreCopy Succeeded ended failed",
    ];
    ensure!(story == expected, "{story:#?}");
    source_runs_on(&pods, &vmi).await?;
    let again = pods.migrate(&migrating(&vmi, UID), &slow()).await?;
    ensure!(
        !again.success && again.message.contains("already executed"),
        "{again:?}"
    );
    drop(proxies);
    let pods = pods.restart_target(&vmi).await?;
    let _proxies = pods.prepare_target(&vmi, NEXT_UID).await?;
    pods.migrate(&migrating(&vmi, NEXT_UID), &stock_options())
        .await?
        .ok()?;
    pods.wait_for_any_target_end().await?;
    let end = pods.wait_for_source_end(NEXT_UID).await?;
    ensure!(migration_of(&end)["Failed"] != true, "{end}");
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_during_the_targets_preparation_takes_effect_after_it() -> Result<()> {
    let (pods, vmi) = booted("early", LauncherUser::Nonroot).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &slow()).await?.ok()?;
    pods.cancel(&vmi).await?.ok()?;
    let record = migration_of(&pods.wait_for_source_end(UID).await?).clone();
    ensure!(
        record["AbortStatus"] == "Succeeded" && record["Failed"] == true,
        "{record}"
    );
    source_runs_on(&pods, &vmi).await?;
    pods.source.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn death_of_the_targets_qemu_fails_the_migration() -> Result<()> {
    let (mut pods, vmi) = booted("bereft", LauncherUser::Nonroot).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &slow()).await?.ok()?;
    let incoming = pods
        .target
        .handler
        .wait_for_state("Paused/Migration", 0, BOOT);
    incoming.await?;
    pods.target
        .pod
        .qemu()
        .context("no QEMU on the target")?
        .kill()?;
    let record = migration_of(&pods.wait_for_source_end(UID).await?).clone();
    let reason = record["FailureReason"].as_str().unwrap_or_default();
    ensure!(reason.starts_with("virError(Code="), "{record}");
    ensure!(record["AbortStatus"] == "", "{record}");
    source_runs_on(&pods, &vmi).await?;
    pods.target.expect_exit_code(0).await?;
    pods.source.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn late_migration_is_aborted_by_its_limit() -> Result<()> {
    let (pods, vmi) = booted("late", LauncherUser::Nonroot).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    let options =
        json!({"Bandwidth": "1Mi", "CompletionTimeoutPerGiB": 2, "AllowWorkloadDisruption": true});
    pods.migrate(&migrating(&vmi, UID), &options).await?.ok()?;
    let record = migration_of(&pods.wait_for_source_end(UID).await?).clone();
    ensure!(
        record["Mode"] == "Paused" && record["AbortStatus"] == "Succeeded",
        "{record}"
    );
    let story = story(&pods.source.handler.events());
    ensure!(
        story
            .iter()
            .any(|line| line.starts_with("Paused/Migration")),
        "{story:#?}"
    );
    source_runs_on(&pods, &vmi).await?;
    pods.source.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_guest_arrives_paused() -> Result<()> {
    let (pods, vmi) = booted("paused", LauncherUser::Nonroot).await?;
    pods.source.commands.pause(&vmi).await?.ok()?;
    pods.source
        .handler
        .wait_for_state("Paused/User", 0, EVENT)
        .await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &stock_options())
        .await?
        .ok()?;
    let arrived = pods.wait_for_any_target_end().await?;
    ensure!(arrived.state() == "Paused/User", "{arrived}");
    pods.wait_for_source_end(UID).await?;
    let target = pods.end_source(&vmi).await?;
    target.commands.unpause(&vmi).await?.ok()?;
    target.wait_for_agent(&vmi).await?;
    target.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_continues_on_the_target_by_post_copy() -> Result<()> {
    if !Path::new("/dev/userfaultfd").exists() {
        return not_tested("post-copy", Missing::OfMachine("/dev/userfaultfd"));
    }
    let (pods, vmi) = booted("ahead", LauncherUser::Nonroot).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    let options = json!({"Bandwidth": "10Mi", "CompletionTimeoutPerGiB": 1, "AllowPostCopy": true,
        "AllowWorkloadDisruption": true});
    pods.migrate(&migrating(&vmi, UID), &options).await?.ok()?;
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
    let block = |vmi: &Vmi| {
        let migrating = migrating(vmi, UID);
        migrating.edit(|vmi| vmi["status"]["migrationMethod"] = json!("BlockMigration"))
    };
    let _proxies = pods.prepare_target(&block(&vmi), UID).await?;
    pods.migrate(&block(&vmi), &stock_options()).await?.ok()?;
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
