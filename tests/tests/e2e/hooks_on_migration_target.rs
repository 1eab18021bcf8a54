//! Hook modules on the target of a migration change the domain that arrives, or prevent the migration. virsh migrates
//! the VM from the source's libvirt.

use anyhow::{Result, ensure};
use tests::build_and_install_hooks as hooks;
use tests::migration::{MigrationPods, PreparedMigration, migrate};
use tests::pod::LauncherUser;
use tests::virsh::inactive_xml;
use tests::vmi_builder::Vmi;

use super::migration_target::{UID, migration_states};

/// The cache mode of a disk that a module on the target sets.
const CHANGED_ATTRIBUTE: &str = "cache='writeback'";

async fn migrate_with_module_on_target(
    name: &str,
    annotation: (&str, &str),
    module: &str,
) -> Result<(MigrationPods, Vmi, Result<()>)> {
    let vmi = Vmi::new(name, LauncherUser::Nonroot)
        .cloud_init("#cloud-config\n")
        .annotate(annotation.0, annotation.1)
        .edit(|vmi| {
            vmi["status"]["volumeStatus"] =
                serde_json::json!([{ "name": "cloudinit", "target": "vda", "size": 1_048_576 }]);
        });
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    let hooks_dir = prepared.target.pod.hooks_dir()?;
    hooks::install(&hooks_dir, "hook-sidecar-0", &hooks::example(module)?)?;
    let pods = prepared.start(&vmi, &["--hook-sidecars", "1"]).await?;
    pods.source.boot_without_controller(&vmi).await?;
    let _proxies = pods.prepare_target(&vmi, UID).await?;
    let migration_result = migrate(&pods.source.pod, &vmi, &["--unsafe"]).await;
    Ok((pods, vmi, migration_result))
}

#[tokio::test(flavor = "multi_thread")]
async fn module_on_the_target_changes_the_vm_that_arrives() -> Result<()> {
    let annotation = ("disk-tuning.example.com/cache", "writeback");
    let (pods, vmi, migration_result) =
        migrate_with_module_on_target("tuned", annotation, "disk-tuning-hook").await?;
    migration_result?;
    pods.wait_for_any_target_end().await?;
    let domain = pods.target.commands.domain().await?;
    let cache = &domain["Spec"]["Devices"]["Disks"][0]["Driver"]["Cache"];
    ensure!(cache == "writeback", "{domain}");
    let definition = inactive_xml(&pods.target.pod, &vmi).await?;
    ensure!(definition.contains(CHANGED_ATTRIBUTE), "{definition}");
    let source = inactive_xml(&pods.source.pod, &vmi).await?;
    ensure!(!source.contains(CHANGED_ATTRIBUTE), "{source}");
    let migration_states = migration_states(&pods.target.handler.events());
    ensure!(
        migration_states.len() == 3,
        "the definition is not published: {migration_states:?}"
    );
    // libvirt's hook on the source has written the marker, since the VM has left.
    let marker = pods
        .source
        .pod
        .path("/run/kubevirt-private/backend-storage-meta/migrated");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(marker)?.permissions());
    ensure!(mode & 0o777 == 0o644, "{mode:o}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn change_that_the_guest_would_notice_is_refused_by_name_on_the_source() -> Result<()> {
    let annotation = (
        "smbios.vm.kubevirt.io/baseBoardManufacturer",
        "Radical Edward",
    );
    let (pods, vmi, migration_result) =
        migrate_with_module_on_target("board", annotation, "smbios-hook").await?;
    let error = format!(
        "{:#}",
        migration_result
            .err()
            .unwrap_or_else(|| anyhow::anyhow!("it migrated"))
    );
    ensure!(
        error.contains("hook-sidecar-0") && error.contains("/domain/"),
        "the source's error names hook and path: {error}"
    );
    pods.source.wait_for_agent(&vmi).await?;
    pods.source.end_vm(&vmi).await
}
