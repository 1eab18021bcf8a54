//! Migrations between two launchers that are cancelled or fail: the VM continues on the source.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::BOOT_TIMEOUT;
use tests::migration::{MigrationPods, migrating, migration_of, stock_options};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use super::migration_successes::{NEXT_UID, UID, boot_pods, migration_states};

/// Checks that the guest on the source still runs, and that its launcher controls it.
async fn check_source_still_runs(pods: &MigrationPods, vmi: &Vmi) -> Result<()> {
    let answer = pods.source.commands.guest_ping(vmi, 5).await?;
    ensure!(answer.success, "the guest on the source: {answer:?}");
    let domain = pods.source.commands.domain().await?;
    ensure!(domain["Status"]["Status"] == "Running", "{domain}");
    Ok(())
}

/// Options with a bandwidth at which the migration lasts longer than the test.
fn slow_options() -> Value {
    json!({"Bandwidth": "1Mi", "ProgressTimeout": 150, "CompletionTimeoutPerGiB": 150})
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_migration_leaves_the_vm_and_another_one_succeeds() -> Result<()> {
    let (pods, vmi) = boot_pods("stays", LauncherUser::Nonroot).await?;
    let proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &slow_options())
        .await?
        .accepted()?;
    let arrival = pods
        .target
        .handler
        .wait_for_state("Paused/Migration", 0, BOOT_TIMEOUT);
    arrival.await?;
    let stats = pods.source.commands.domain_stats().await?;
    ensure!(stats["Name"] == vmi.domain(), "{stats}");
    pods.cancel(&vmi).await?.accepted()?;
    let end = pods.wait_for_source_end(UID).await?;
    let record = migration_of(&end);
    ensure!(record["AbortStatus"] == "Succeeded", "{record}");
    ensure!(
        record["FailureReason"] == "Live migration has been aborted",
        "{record}"
    );
    let migration_states = migration_states(&pods.source.handler.events());
    let expected = [
        "Running/Unknown PreCopy",
        "Running/Unknown PreCopy abort=Aborting",
        "Running/Unknown PreCopy abort=Succeeded ended failed",
    ];
    ensure!(migration_states == expected, "{migration_states:#?}");
    check_source_still_runs(&pods, &vmi).await?;
    let again = pods.migrate(&migrating(&vmi, UID), &slow_options()).await?;
    ensure!(
        !again.success && again.message.contains("already executed"),
        "{again:?}"
    );
    drop(proxies);
    let pods = pods.restart_target(&vmi).await?;
    let _proxies = pods.prepare_target(&vmi, NEXT_UID).await?;
    pods.migrate(&migrating(&vmi, NEXT_UID), &stock_options())
        .await?
        .accepted()?;
    pods.wait_for_any_target_end().await?;
    let end = pods.wait_for_source_end(NEXT_UID).await?;
    ensure!(migration_of(&end)["Failed"] != true, "{end}");
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_before_libvirt_copies_takes_effect_once_it_begins() -> Result<()> {
    let (pods, vmi) = boot_pods("early", LauncherUser::Nonroot).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &slow_options())
        .await?
        .accepted()?;
    pods.cancel(&vmi).await?.accepted()?;
    let record = migration_of(&pods.wait_for_source_end(UID).await?).clone();
    ensure!(
        record["AbortStatus"] == "Succeeded" && record["Failed"] == true,
        "{record}"
    );
    check_source_still_runs(&pods, &vmi).await?;
    pods.source.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn death_of_the_targets_qemu_fails_the_migration() -> Result<()> {
    let (mut pods, vmi) = boot_pods("bereft", LauncherUser::Nonroot).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    pods.migrate(&migrating(&vmi, UID), &slow_options())
        .await?
        .accepted()?;
    let arrival = pods
        .target
        .handler
        .wait_for_state("Paused/Migration", 0, BOOT_TIMEOUT);
    arrival.await?;
    pods.target
        .pod
        .qemu()
        .context("no QEMU on the target")?
        .kill()?;
    let record = migration_of(&pods.wait_for_source_end(UID).await?).clone();
    let reason = record["FailureReason"].as_str().unwrap_or_default();
    ensure!(reason.starts_with("virError(Code="), "{record}");
    ensure!(record["AbortStatus"] == "", "{record}");
    check_source_still_runs(&pods, &vmi).await?;
    pods.target.expect_exit_code(0).await?;
    pods.source.end_vm(&vmi).await
}

/// At the limit the guest is paused, as `AllowWorkloadDisruption` allows. Pausing does not help here, so the migration
/// is aborted later.
#[tokio::test(flavor = "multi_thread")]
async fn late_migration_is_aborted_after_pausing_the_guest_does_not_help() -> Result<()> {
    let (pods, vmi) = boot_pods("late", LauncherUser::Nonroot).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    let options =
        json!({"Bandwidth": "1Mi", "CompletionTimeoutPerGiB": 2, "AllowWorkloadDisruption": true});
    pods.migrate(&migrating(&vmi, UID), &options)
        .await?
        .accepted()?;
    let record = migration_of(&pods.wait_for_source_end(UID).await?).clone();
    ensure!(
        record["Mode"] == "Paused" && record["AbortStatus"] == "Succeeded",
        "{record}"
    );
    let migration_states = migration_states(&pods.source.handler.events());
    ensure!(
        migration_states
            .iter()
            .any(|line| line.starts_with("Paused/Migration")),
        "{migration_states:#?}"
    );
    check_source_still_runs(&pods, &vmi).await?;
    pods.source.end_vm(&vmi).await
}
