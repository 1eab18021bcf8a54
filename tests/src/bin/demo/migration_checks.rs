//! The checks of the migration demo: the pods, the notifications, and the guest on the target.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::LauncherFixture;
use tests::migration::{MigrationPods, migration_of};
use tests::pod::Pod;
use tests::virsh::inactive_xml;
use tests::vmi_builder::Vmi;

use crate::demo_checks::Checks;
use crate::demo_vmis::{CACHE_MODE, MANUFACTURER};
use crate::hook_runs_in_log::{HookRun, runs_in_log};

/// Identifies one boot of a guest, so that a guest that was rebooted or replaced is noticed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GuestIdentity {
    /// The kernel's `boot_id`, which is new at each boot.
    boot_id: String,
    board_vendor: String,
}

impl GuestIdentity {
    /// Reads the identity through the guest agent.
    pub(crate) async fn read(launcher: &LauncherFixture, vmi: &Vmi) -> Result<GuestIdentity> {
        let cat = async |file: &str| {
            let answer = launcher.commands.exec(vmi, "/bin/cat", &[file]).await?;
            anyhow::Ok(answer.std_out.trim().to_owned())
        };
        Ok(GuestIdentity {
            boot_id: cat("/proc/sys/kernel/random/boot_id").await?,
            board_vendor: cat("/sys/class/dmi/id/board_vendor").await?,
        })
    }
}

/// Checks that the two launchers have different namespaces and different libvirt hosts.
pub(crate) fn check_pods(checks: &mut Checks, pods: &MigrationPods) {
    let (source, target) = (namespaces(&pods.source.pod), namespaces(&pods.target.pod));
    let are_different = source
        .iter()
        .zip(&target)
        .all(|(source, target)| source != target);
    checks.check(
        "the pods have mounts, processes and a network of their own",
        are_different && !source.is_empty() && source.len() == target.len(),
        || format!("{source:?} {target:?}"),
    );
    let host = |pod: &Pod| {
        let path = pod.path("/etc/libvirt/virtqemud.conf");
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("host_uuid"));
        line.map(str::to_owned)
    };
    let hosts = [host(&pods.source.pod), host(&pods.target.pod)];
    checks.check(
        "and libvirt takes them for two hosts",
        hosts[0].is_some() && hosts[1].is_some() && hosts[0] != hosts[1],
        || format!("{hosts:?}"),
    );
}

fn namespaces(pod: &Pod) -> Vec<PathBuf> {
    let Some(launcher) = pod.process("virt-launcher") else {
        return Vec::new();
    };
    let process = launcher.pid.as_raw_nonzero();
    let link = |name| fs::read_link(format!("/proc/{process}/ns/{name}")).ok();
    ["mnt", "pid", "net"].into_iter().filter_map(link).collect()
}

/// Checks the notifications of both pods: virt-handler considers the migration a success.
pub(crate) fn check_notifications(
    checks: &mut Checks,
    pods: &MigrationPods,
    target_end: &Event,
    source_end: &Event,
) {
    let states = pods.target.handler.states();
    let mut seen = states.clone();
    seen.dedup();
    let expected = ["ADDED Paused/Migration", "MODIFIED Running/Unknown"];
    checks.check(
        "notifications of the target: arriving, then running",
        seen == expected,
        || states.join(", "),
    );
    let description = |event: &Event| format!("{event} {}", migration_of(event));
    checks.check(
        "the target's record has no failure",
        migration_of(target_end)["Failed"] != true,
        || description(target_end),
    );
    checks.check(
        "the source ends as Shutoff/Migrated, without a failure",
        source_end.state() == "Shutoff/Migrated" && migration_of(source_end)["Failed"] != true,
        || description(source_end),
    );
}

/// Checks that the guest keeps running on the target, and that the hooks' changes are kept.
pub(crate) async fn check_target(
    checks: &mut Checks,
    pods: &MigrationPods,
    vmi: &Vmi,
    before: &GuestIdentity,
) -> Result<()> {
    pods.target.wait_for_agent(vmi).await?;
    let after = GuestIdentity::read(&pods.target, vmi).await?;
    checks.check(
        "the guest goes on without a boot",
        after.boot_id == before.boot_id && !after.boot_id.is_empty(),
        || format!("{before:?} {after:?}"),
    );
    checks.check(
        "its board vendor is still what the smbios hook set",
        after.board_vendor == MANUFACTURER,
        || format!("{after:?}"),
    );
    let runs = runs_in_log(&pods.target.pod.log_path());
    let changed_nothing = |hook: &str| {
        let mut runs_of_hook = runs.iter().filter(|run| run.hook == hook);
        runs_of_hook.next_back().map(|run| !run.changed())
    };
    checks.check(
        "the smbios hook ran on the domain that arrived, and found its own work there",
        changed_nothing("hook-sidecar-0").or_else(|| changed_nothing("smbios")) == Some(true),
        || {
            runs.iter()
                .map(HookRun::describe)
                .collect::<Vec<_>>()
                .join("\n")
        },
    );
    let domain = pods.target.commands.domain().await?;
    let cache = &domain["Spec"]["Devices"]["Disks"][0]["Driver"]["Cache"];
    checks.check(
        "the disk has the cache mode that the target's disk-tuning hook set",
        cache == CACHE_MODE,
        || domain.to_string(),
    );
    let tuned = format!("cache='{CACHE_MODE}'");
    let source = inactive_xml(&pods.source.pod, vmi)
        .await
        .context("the source's definition")?;
    checks.check(
        "which the VM did not have on the source",
        !source.contains(&tuned),
        || source.clone(),
    );
    let definition = inactive_xml(&pods.target.pod, vmi).await?;
    let vendor = format!("<entry name='manufacturer'>{MANUFACTURER}</entry>");
    checks.check(
        "both changes are in the target's definition, for the next start",
        definition.contains(&tuned) && definition.contains(&vendor),
        || definition.clone(),
    );
    Ok(())
}
