//! libvirt's hook as the launcher itself links it: `--libvirt-hook-server-and-client` on both sides, and the hook's program
//! where KubeVirt's image has it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::binaries::binary;
use tests::build_and_install_hooks as hooks;
use tests::migration::{
    MigrationPods, PreparedMigration, Proxies, inactive_xml, migratable_xml, migration_of,
    stock_options,
};
use tests::pod::{LauncherUser, Pod};
use tests::vmi_builder::Vmi;

use super::migration_decentralized::{
    FIRMWARE_UUID, SOURCE_UID, TARGET_UID, another_vmi, migrating,
};

const FLAG: &str = "--libvirt-hook-server-and-client";
const CLIENT: &str = "/usr/bin/libvirt-hook-client";
const MARKER: &str = "/run/kubevirt-private/backend-storage-meta/migrated";
/// What the module on the target changes, when the annotation tells it to.
const CACHE: (&str, &str) = ("disk-tuning.example.com/cache", "writeback");
const CHANGED: &str = "cache='writeback'";

/// Two clusters' VMIs of one VM, and the pods with `client` and with `module` on the target.
pub(crate) struct Clusters {
    pub(crate) source: Vmi,
    pub(crate) target: Vmi,
    pub(crate) pods: MigrationPods,
    _proxies: Proxies,
}

impl Clusters {
    /// The VM runs on the source, and the target is prepared.
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
        let target = another_vmi(&source);
        let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
        for pod in [&prepared.source.pod, &prepared.target.pod] {
            pod.install_hook_client_in_image(client)?;
        }
        let module = hooks::example(module)?;
        let hooks_dir = prepared.target.pod.hooks_dir()?;
        hooks::install(&hooks_dir, "hook-sidecar-0", &module)?;
        let (one, other) = tokio::try_join!(
            prepared.source.start(&source, &[FLAG]),
            (prepared.target).start(&target, &[FLAG, "--hook-sidecars", "1"])
        )?;
        let pods = MigrationPods {
            source: one,
            target: other,
        };
        for pod in [&pods.source.pod, &pods.target.pod] {
            ensure!(linked(pod)? == Path::new(CLIENT), "{:?}", linked(pod)?);
        }
        pods.source.boot_without_controller(&source).await?;
        pods.source.wait_for_agent(&source).await?;
        let arriving = migrating(&target, &source, &target, "target");
        let answer = pods.sync_target(&arriving).await?;
        ensure!(answer.success, "{}", answer.message);
        let proxies = Proxies::start(&pods.source.pod, &pods.target.pod, source.uid())?;
        Ok(Clusters {
            source,
            target,
            pods,
            _proxies: proxies,
        })
    }

    /// Migrates, and returns the FailureReason; empty for a success.
    pub(crate) async fn migrate(&self) -> Result<String> {
        let leaving = migrating(&self.source, &self.source, &self.target, "source");
        let pods = &self.pods;
        pods.migrate(&leaving, &stock_options()).await?.ok()?;
        let end = pods.wait_for_source_end(SOURCE_UID).await?;
        let record = migration_of(&end);
        let reason = record["FailureReason"].as_str().unwrap_or_default();
        ensure!((record["Failed"] == true) != reason.is_empty(), "{record}");
        Ok(reason.to_owned())
    }
}

/// Where the pod's hook of libvirt leads.
fn linked(pod: &Pod) -> Result<std::path::PathBuf> {
    let hook = pod.path("/etc/libvirt/hooks/qemu");
    fs::read_link(&hook).context("the launcher has not linked libvirt's hook")
}

/// A VM becomes another VMI. The source leaves the names of files to the target, so that without the hook it would not start.
pub(crate) async fn domain_is_edited_through(client: &Path) -> Result<()> {
    let clusters = Clusters::prepare(client, "disk-tuning-hook", CACHE).await?;
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
    let running = migratable_xml(&pods.target.pod, &target).await?;
    for (what, xml) in [("definition", &definition), ("domain", &running)] {
        for text in ["/elsewhere/arrives/", CHANGED] {
            ensure!(xml.contains(text), "no {text} in the {what}: {xml}");
        }
        ensure!(!xml.contains("/default/leaves/"), "{what}: {xml}");
    }
    let before = inactive_xml(&pods.source.pod, &source).await?;
    ensure!(!before.contains(CHANGED), "{before}");
    ensure!(pods.source.pod.path(MARKER).exists(), "the VM has left");
    ensure!(!pods.target.pod.path(MARKER).exists(), "it has come");
    pods.target.commands.sync(&target).await?.ok()?;
    pods.target.wait_for_agent(&target).await?;
    pods.end_source(&source).await?.end_vm(&target).await
}

#[tokio::test(flavor = "multi_thread")]
async fn libvirt_calls_the_hook_that_the_launcher_links() -> Result<()> {
    domain_is_edited_through(&binary("virt-hook")?).await
}
