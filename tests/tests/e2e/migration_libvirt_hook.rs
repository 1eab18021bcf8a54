//! Migrations with the libvirt hook that the launcher itself links (`--libvirt-hook-server-and-client`), and the hook's
//! program at the path in KubeVirt's image.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::binaries::binary;
use tests::build_and_install_hooks as hooks;
use tests::migration::{MigrationPods, PreparedMigration, Proxies, migration_of, stock_options};
use tests::pod::{LauncherUser, Pod};
use tests::virsh::{inactive_xml, migratable_xml};
use tests::vmi_builder::Vmi;

use super::migration_decentralized::{
    FIRMWARE_UUID, SOURCE_UID, TARGET_UID, migrating, vmi_of_target_cluster,
};

const HOOK_SERVER_FLAG: &str = "--libvirt-hook-server-and-client";
const HOOK_CLIENT_PATH: &str = "/usr/bin/libvirt-hook-client";
const MIGRATED_MARKER: &str = "/run/kubevirt-private/backend-storage-meta/migrated";
/// The annotation that makes the module on the target set a cache mode.
const CACHE_ANNOTATION: (&str, &str) = ("disk-tuning.example.com/cache", "writeback");
const CHANGED_ATTRIBUTE: &str = "cache='writeback'";

/// A migration between two clusters: the VMIs of both, and their pods. The target's pod has a hook module.
pub(crate) struct Clusters {
    pub(crate) source: Vmi,
    pub(crate) target: Vmi,
    pub(crate) pods: MigrationPods,
    _proxies: Proxies,
}

impl Clusters {
    /// Boots the VM on the source and prepares the target. `client` is the hook's program in both pods.
    pub(crate) async fn prepare(
        client: &Path,
        module: &str,
        annotation: (&str, &str),
    ) -> Result<Clusters> {
        let (key, text) = annotation;
        let source = Vmi::new("leaves", LauncherUser::Nonroot)
            .cloud_init("#cloud-config\n")
            .annotate(key, text)
            .edit(|vmi| {
                vmi["spec"]["domain"]["firmware"]["uuid"] = json!(FIRMWARE_UUID);
                vmi["status"]["volumeStatus"] =
                    json!([{ "name": "cloudinit", "target": "vda", "size": 1 << 20 }]);
            });
        let target = vmi_of_target_cluster(&source);
        let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
        for pod in [&prepared.source.pod, &prepared.target.pod] {
            pod.install_hook_client_in_image(client)?;
        }
        let module = hooks::example(module)?;
        let hooks_dir = prepared.target.pod.hooks_dir()?;
        hooks::install(&hooks_dir, "hook-sidecar-0", &module)?;
        let (source_pod, target_pod) = tokio::try_join!(
            prepared.source.start(&source, &[HOOK_SERVER_FLAG]),
            (prepared.target).start(&target, &[HOOK_SERVER_FLAG, "--hook-sidecars", "1"])
        )?;
        let pods = MigrationPods {
            source: source_pod,
            target: target_pod,
        };
        for pod in [&pods.source.pod, &pods.target.pod] {
            ensure!(
                hook_link_target(pod)? == Path::new(HOOK_CLIENT_PATH),
                "{:?}",
                hook_link_target(pod)?
            );
        }
        pods.source.boot_without_controller(&source).await?;
        pods.source.wait_for_agent(&source).await?;
        let target_vmi = migrating(&target, &source, &target, "target");
        let answer = pods.sync_target(&target_vmi).await?;
        ensure!(answer.success, "{}", answer.message);
        let proxies = Proxies::start(&pods.source.pod, &pods.target.pod, source.uid())?;
        Ok(Clusters {
            source,
            target,
            pods,
            _proxies: proxies,
        })
    }

    /// Migrates the VM. Returns the FailureReason, which is empty after a success.
    pub(crate) async fn migrate(&self) -> Result<String> {
        let source_vmi = migrating(&self.source, &self.source, &self.target, "source");
        let pods = &self.pods;
        pods.migrate(&source_vmi, &stock_options())
            .await?
            .accepted()?;
        let end = pods.wait_for_source_end(SOURCE_UID).await?;
        let record = migration_of(&end);
        let reason = record["FailureReason"].as_str().unwrap_or_default();
        ensure!((record["Failed"] == true) != reason.is_empty(), "{record}");
        Ok(reason.to_owned())
    }
}

/// The target of the link that is libvirt's hook in the pod.
fn hook_link_target(pod: &Pod) -> Result<std::path::PathBuf> {
    let hook = pod.path("/etc/libvirt/hooks/qemu");
    fs::read_link(&hook).context("the launcher has not linked libvirt's hook")
}

/// Checks that libvirt's hook on the target edits the domain of a decentralized migration. Without the hook the VM
/// would not start, because the source's domain has the source's file names.
pub(crate) async fn check_edit_through_hook(client: &Path) -> Result<()> {
    let clusters = Clusters::prepare(client, "disk-tuning-hook", CACHE_ANNOTATION).await?;
    let reason = clusters.migrate().await?;
    ensure!(reason.is_empty(), "{reason}");
    let Clusters {
        source,
        target,
        pods,
        ..
    } = clusters;
    pods.wait_for_target_end(TARGET_UID).await?;
    let definition = inactive_xml(&pods.target.pod, &target).await?;
    let running_domain = migratable_xml(&pods.target.pod, &target).await?;
    for (what, xml) in [("definition", &definition), ("domain", &running_domain)] {
        for text in ["/elsewhere/arrives/", CHANGED_ATTRIBUTE] {
            ensure!(xml.contains(text), "no {text} in the {what}: {xml}");
        }
        ensure!(!xml.contains("/default/leaves/"), "{what}: {xml}");
    }
    let before = inactive_xml(&pods.source.pod, &source).await?;
    ensure!(!before.contains(CHANGED_ATTRIBUTE), "{before}");
    ensure!(
        pods.source.pod.path(MIGRATED_MARKER).exists(),
        "the VM has left"
    );
    ensure!(
        !pods.target.pod.path(MIGRATED_MARKER).exists(),
        "it has come"
    );
    pods.target.commands.sync(&target).await?.accepted()?;
    pods.target.wait_for_agent(&target).await?;
    pods.end_source(&source).await?.end_vm(&target).await
}

#[tokio::test(flavor = "multi_thread")]
async fn libvirt_calls_the_hook_that_the_launcher_links() -> Result<()> {
    check_edit_through_hook(&binary("virt-hook")?).await
}
