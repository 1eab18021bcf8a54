//! A hook at PreMigrationSource refuses one migration, and sets QEMU's parameters of the next one.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::BOOT_TIMEOUT;
use tests::migration::{MigrationPods, PreparedMigration, migrating, migration_of, stock_options};
use tests::pod::LauncherUser;
use tests::virsh::qemu_command;
use tests::vmi_builder::Vmi;

const UID: &str = "4d4d0000-0000-4000-8000-000000000021";
const NEXT_UID: &str = "4d4d0000-0000-4000-8000-000000000022";
const HOLD_REASON: &str = "closing the books until Friday";

fn annotate(vmi: &Vmi, name: &str, value: &str) -> Vmi {
    let name = format!("migration-tuning.example.com/{name}");
    vmi.clone().annotate(&name, value)
}

/// The answer of the source's QEMU to a QMP query.
async fn query_qemu(pods: &MigrationPods, vmi: &Vmi, command: &str) -> Result<Value> {
    let command = json!({ "execute": command }).to_string();
    let mut answer = qemu_command(&pods.source.pod, vmi, &command).await?;
    Ok(answer["return"].take())
}

#[tokio::test(flavor = "multi_thread")]
async fn hook_refuses_a_migration_and_sets_parameters_of_the_next_one() -> Result<()> {
    let vmi = Vmi::new("tunes", LauncherUser::Nonroot);
    let PreparedMigration { source, target } = PreparedMigration::create(LauncherUser::Nonroot)?;
    let module = hooks::example("migration-tuning-hook")?;
    hooks::install(&source.pod.hooks_dir()?, "hook-sidecar-0", &module)?;
    let (source, target) = tokio::try_join!(
        source.start(&vmi, &["--hook-sidecars", "1"]),
        target.start(&vmi, &[])
    )?;
    let mut pods = MigrationPods { source, target };
    pods.source.boot_without_controller(&vmi).await?;
    pods.source.wait_for_agent(&vmi).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;

    let vmi_on_hold = annotate(&vmi, "hold", HOLD_REASON);
    pods.migrate(&migrating(&vmi_on_hold, UID), &stock_options())
        .await?
        .accepted()?;
    let record = migration_of(&pods.wait_for_source_end(UID).await?).clone();
    let reason = record["FailureReason"].as_str().unwrap_or_default();
    ensure!(
        record["Failed"] == true
            && reason.contains("hook-sidecar-0")
            && reason.contains(HOLD_REASON),
        "{record}"
    );
    pods.source.commands.guest_ping(&vmi, 5).await?.accepted()?;
    ensure!(
        pods.target.handler.events().is_empty(),
        "the target was notified: {}",
        pods.target.handler.history()
    );

    let tuned = annotate(&vmi, "bandwidth-mib", "1");
    let tuned = annotate(&tuned, "connections", "2");
    let tuned = migrating(&annotate(&tuned, "auto-converge", "true"), NEXT_UID);
    pods.migrate(&tuned, &stock_options()).await?.accepted()?;
    let target = &pods.target.handler;
    target
        .wait_for_state("Paused/Migration", 0, BOOT_TIMEOUT)
        .await?;
    let parameters = query_qemu(&pods, &vmi, "query-migrate-parameters").await?;
    ensure!(
        parameters["max-bandwidth"] == 1 << 20 && parameters["multifd-channels"] == 2,
        "{parameters}"
    );
    let capabilities = query_qemu(&pods, &vmi, "query-migrate-capabilities").await?;
    let capabilities = capabilities.as_array().context("no list")?;
    for name in ["multifd", "auto-converge"] {
        let is_on = capabilities
            .iter()
            .any(|capability| capability["capability"] == name && capability["state"] == true);
        ensure!(is_on, "{name}: {capabilities:?}");
    }
    pods.cancel(&tuned).await?.accepted()?;
    pods.wait_for_source_end(NEXT_UID).await?;
    pods.target.expect_exit_code(0).await?;
    pods.source.end_vm(&vmi).await
}
