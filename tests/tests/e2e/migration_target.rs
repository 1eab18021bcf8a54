//! The target of a migration: a VM arrives, and a pod without a VM ends. virsh migrates the VM from the source's
//! libvirt.

use std::time::Duration;

use anyhow::{Result, ensure};
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT};
use tests::migration::{MigrationPods, TARGET_POD, migrate, migrating, migration_of};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

pub(crate) const UID: &str = "4d4d0000-0000-4000-8000-000000000001";

/// The domain events without repetitions, each as `TYPE STATUS/REASON begun|ended|no migration`.
pub(crate) fn migration_states(events: &[Event]) -> Vec<String> {
    let mut migration_states: Vec<String> = events
        .iter()
        .filter(|event| !event.event_type().is_empty())
        .map(|event| {
            let record = migration_of(event);
            let migration = match (record.is_null(), record["EndTimestamp"].is_null()) {
                (true, _) => "no migration",
                (false, true) => "begun",
                (false, false) => "ended",
            };
            format!("{} {} {migration}", event.event_type(), event.state())
        })
        .collect();
    migration_states.dedup();
    migration_states
}

async fn check_arrival(user: LauncherUser) -> Result<()> {
    let vmi = Vmi::new("migrates", user).cloud_init("#cloud-config\n");
    let vmi = vmi.edit(|vmi| {
        vmi["status"]["volumeStatus"] =
            serde_json::json!([{ "name": "cloudinit", "target": "vda", "size": 2_097_152 }]);
    });
    let pods = MigrationPods::start(user, &vmi).await?;
    pods.source.boot_without_controller(&vmi).await?;
    pods.source.wait_for_agent(&vmi).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    ensure!(
        pods.target.handler.events().is_empty(),
        "nothing is published"
    );
    let image = pods
        .target
        .pod
        .path("/run/kubevirt-ephemeral-disks/cloud-init-data/default/migrates/noCloud.iso");
    let image = std::fs::read(image)?;
    let user_data = b"#cloud-config";
    ensure!(
        image.windows(user_data.len()).any(|part| part == user_data),
        "no zeros"
    );
    ensure!(
        image.len() == 2 << 20,
        "as large as the source's: {}",
        image.len()
    );
    let repeated = pods.sync_target(&migrating(&vmi, UID)).await?;
    ensure!(repeated.success, "{}", repeated.message);
    let early = pods.target.commands.sync(&vmi).await?;
    ensure!(
        !early.success && early.message.contains("arrive by a migration"),
        "{early:?}"
    );
    migrate(&pods.source.pod, &vmi, &["--unsafe"]).await?;
    let end = pods.wait_for_any_target_end().await?;
    ensure!(migration_of(&end)["UID"] == UID, "{}", end.domain());
    ensure!(migration_of(&end)["Mode"] == "PreCopy", "{}", end.domain());
    ensure!(end.metadata()["UID"] == vmi.uid(), "{}", end.domain());
    let migration_states = migration_states(&pods.target.handler.events());
    let expected = [
        "ADDED Paused/Migration begun",
        "MODIFIED Running/Unknown begun",
        "MODIFIED Running/Unknown ended",
    ];
    ensure!(
        migration_states
            .iter()
            .zip(expected)
            .all(|(found, expected)| found == expected),
        "{migration_states:?}"
    );
    let finalized = pods.finalize(&migrating(&vmi, UID)).await?;
    ensure!(finalized.success, "{}", finalized.message);
    pods.target.commands.sync(&vmi).await?.accepted()?;
    pods.target.wait_for_agent(&vmi).await?;
    let source_end = pods
        .source
        .handler
        .wait_for_state("Shutoff/Migrated", 0, EVENT_TIMEOUT);
    source_end.await?;
    let added = pods.target.handler.events();
    let added = added.iter().filter(|event| event.event_type() == "ADDED");
    ensure!(added.count() == 1, "{}", pods.target.handler.history());
    pods.end_source(&vmi).await?.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_arrives_and_is_reported_once_nonroot() -> Result<()> {
    check_arrival(LauncherUser::Nonroot).await
}

#[tokio::test(flavor = "multi_thread")]
async fn vm_arrives_and_is_reported_once_root() -> Result<()> {
    check_arrival(LauncherUser::Root).await
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_target_ends_with_exit_code_0() -> Result<()> {
    let vmi = Vmi::new("unused", LauncherUser::Nonroot);
    let mut pods = MigrationPods::start(LauncherUser::Nonroot, &vmi).await?;
    let vmi = migrating(&vmi, UID);
    let answer = pods.sync_target(&vmi).await?;
    ensure!(answer.success, "{}", answer.message);
    let finalized = pods.finalize(&vmi).await?;
    ensure!(
        finalized.success,
        "also without a domain: {}",
        finalized.message
    );
    let other = vmi.clone().edit(|vmi| {
        vmi["status"]["migrationState"]["targetPod"] = serde_json::json!("another-pod");
    });
    ensure!(pods.clean_up_target(&other).await?.success, "ignored");
    tokio::time::sleep(Duration::from_millis(300)).await;
    pods.target.commands.ping().await?.accepted()?;
    ensure!(pods.clean_up_target(&vmi).await?.success, "{TARGET_POD}");
    pods.target.expect_exit_code(0).await?;
    let line = "the migration to this pod did not take place";
    let log = pods.target.pod.log();
    ensure!(log.matches(line).count() == 1, "{log}");
    ensure!(
        pods.target.handler.events().is_empty(),
        "{}",
        pods.target.handler.history()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn target_ends_when_the_connection_is_cut() -> Result<()> {
    let vmi = Vmi::new("cut", LauncherUser::Nonroot);
    let mut pods = MigrationPods::start(LauncherUser::Nonroot, &vmi).await?;
    pods.source.boot_without_controller(&vmi).await?;
    let mut proxies = pods.prepare_target(&vmi, UID).await?;
    // At 1 MiB/s the migration lasts longer than the test.
    let migration = migrate(&pods.source.pod, &vmi, &["--unsafe", "--bandwidth", "1"]);
    let close_connection = async {
        let incoming = pods
            .target
            .handler
            .wait_for_state("Paused/Migration", 0, BOOT_TIMEOUT);
        incoming.await?;
        proxies.close();
        anyhow::Ok(())
    };
    let (migration_result, close_connection) = tokio::join!(migration, close_connection);
    close_connection?;
    ensure!(migration_result.is_err(), "the connection was cut");
    pods.target.expect_exit_code(0).await?;
    let migration_states = migration_states(&pods.target.handler.events());
    let expected = [
        "ADDED Paused/Migration begun",
        "MODIFIED NoState/NonExistent no migration",
    ];
    ensure!(migration_states == expected, "{migration_states:?}");
    pods.source.commands.ping().await?.accepted()?;
    pods.source.end_vm(&vmi).await
}
