//! What the demo of a migration checks.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tests::launcher_fixture::LauncherFixture;
use tests::migration::{MigrationPods, inactive_xml, migration_of};
use tests::pod::Pod;
use tests::virt_handler::Event;
use tests::vmi_builder::Vmi;

use crate::demo_checks::Checks;
use crate::event_follower::runs;
use crate::migration_scenario::CACHE;
use crate::qemu_scenario::MANUFACTURER;

/// What tells one run of a guest from any other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GuestMark {
    /// The kernel's number of its boot.
    boot: String,
    board_vendor: String,
}

impl GuestMark {
    /// Asks the guest through its agent.
    pub(crate) async fn read(launcher: &LauncherFixture, vmi: &Vmi) -> Result<GuestMark> {
        let cat = async |file: &str| {
            let answer = launcher.commands.exec(vmi, "/bin/cat", &[file]).await?;
            anyhow::Ok(answer.std_out.trim().to_owned())
        };
        Ok(GuestMark {
            boot: cat("/proc/sys/kernel/random/boot_id").await?,
            board_vendor: cat("/sys/class/dmi/id/board_vendor").await?,
        })
    }
}

/// The two launchers share no namespace that containers have of their own.
pub(crate) fn check_pods(checks: &mut Checks, pods: &MigrationPods) {
    let (source, target) = (namespaces(&pods.source.pod), namespaces(&pods.target.pod));
    let differ = source.iter().zip(&target).all(|(one, other)| one != other);
    checks.check(
        "the pods have mounts, processes and a network of their own",
        differ && !source.is_empty() && source.len() == target.len(),
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

/// What virt-handler takes for success.
pub(crate) fn check_records(
    checks: &mut Checks,
    pods: &MigrationPods,
    arrived: &Event,
    left: &Event,
) {
    let states = pods.target.handler.states();
    let mut seen = states.clone();
    seen.dedup();
    let wanted = ["ADDED Paused/Migration", "MODIFIED Running/Unknown"];
    checks.check(
        "notifications of the target: arriving, then running",
        seen == wanted,
        || states.join(", "),
    );
    let story = |event: &Event| format!("{event} {}", migration_of(event));
    checks.check(
        "the target's record has no failure",
        migration_of(arrived)["Failed"] != true,
        || story(arrived),
    );
    checks.check(
        "the source ends as Shutoff/Migrated, without a failure",
        left.state() == "Shutoff/Migrated" && migration_of(left)["Failed"] != true,
        || story(left),
    );
}

/// The guest goes on, and the hooks' changes hold.
pub(crate) async fn check_target(
    checks: &mut Checks,
    pods: &MigrationPods,
    vmi: &Vmi,
    before: &GuestMark,
) -> Result<()> {
    pods.target.wait_for_agent(vmi).await?;
    let after = GuestMark::read(&pods.target, vmi).await?;
    checks.check(
        "the guest goes on without a boot",
        after.boot == before.boot && !after.boot.is_empty(),
        || format!("{before:?} {after:?}"),
    );
    checks.check(
        "its board vendor is still what the smbios hook set",
        after.board_vendor == MANUFACTURER,
        || format!("{after:?}"),
    );
    let runs = runs(&pods.target.pod.log_path());
    let idle = |hook: &str| {
        let mut own = runs.iter().filter(|run| run.hook == hook);
        own.next_back().map(|run| !run.changed())
    };
    checks.check(
        "the smbios hook ran on the domain that arrived, and found its own work there",
        idle("hook-sidecar-0").or_else(|| idle("smbios")) == Some(true),
        || {
            runs.iter()
                .map(crate::logged_hook_run::HookRun::describe)
                .collect::<Vec<_>>()
                .join("\n")
        },
    );
    let domain = pods.target.commands.domain().await?;
    let cache = &domain["Spec"]["Devices"]["Disks"][0]["Driver"]["Cache"];
    checks.check(
        "the disk has the cache mode that the target's disk-tuning hook set",
        cache == CACHE,
        || domain.to_string(),
    );
    let tuned = format!("cache='{CACHE}'");
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
