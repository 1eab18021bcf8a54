//! The demo of a live migration: two pods, hooks in both, a VM that moves from the one to the other. The demo acts as
//! the virt-handlers of both nodes.

use std::time::Duration;

use anyhow::{Context, Result};
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::BOOT_TIMEOUT;
use tests::migration::{MigrationPods, PreparedMigration, migrating, stock_options};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use crate::demo_checks::Checks;
use crate::demo_vmis::{self, CACHE_MODE, MANUFACTURER};
use crate::migration_checks::{self, GuestIdentity};
use crate::timeline::Timeline;
use crate::timeline_follower::TimelineFollower;

const MIGRATION_UID: &str = "4d4d0000-0000-4000-8000-000000000001";
/// The launcher's arguments in both pods: wait for two hooks.
const HOOK_SIDECARS_ARGUMENTS: [&str; 2] = ["--hook-sidecars", "2"];

pub(crate) async fn run(
    timeline: &Timeline,
    checks: &mut Checks,
    user: LauncherUser,
) -> Result<()> {
    timeline.print(
        "demo",
        &format!("preparing two pods for {user:?}: mounts, processes, network and libvirt's host of their own"),
    );
    let vmi = demo_vmis::for_migration(user);
    let PreparedMigration {
        mut source,
        mut target,
    } = PreparedMigration::create(user)?;
    let followers = [("source", &mut source), ("target", &mut target)].map(|(side, prepared)| {
        prepared.pod.suppress_log();
        TimelineFollower::start_side(timeline, side, &prepared.pod, &prepared.handler, &vmi)
    });
    let prepared = PreparedMigration { source, target };
    let outcome = run_steps(timeline, checks, prepared, &vmi).await;
    for follower in followers {
        follower.finish().await;
    }
    outcome
}

async fn run_steps(
    timeline: &Timeline,
    checks: &mut Checks,
    prepared: PreparedMigration,
    vmi: &Vmi,
) -> Result<()> {
    let pods = start(timeline, checks, prepared, vmi).await?;
    let before = boot(timeline, checks, &pods, vmi).await?;
    migrate(timeline, checks, &pods, vmi).await?;
    migration_checks::check_target(checks, &pods, vmi, &before).await?;
    end(timeline, checks, pods, vmi).await
}

async fn start(
    timeline: &Timeline,
    checks: &mut Checks,
    prepared: PreparedMigration,
    vmi: &Vmi,
) -> Result<MigrationPods> {
    let modules = [
        hooks::example("smbios-hook")?,
        hooks::example("disk-tuning-hook")?,
    ];
    for pod in [&prepared.source.pod, &prepared.target.pod] {
        for (number, module) in modules.iter().enumerate() {
            hooks::install(&pod.hooks_dir()?, &format!("hook-sidecar-{number}"), module)?;
        }
    }
    timeline.print(
        "demo",
        "starting monitor and launcher in both, with the hooks smbios and disk-tuning",
    );
    let source = prepared.source.start(vmi, &HOOK_SIDECARS_ARGUMENTS);
    let target = prepared.target.start(vmi, &HOOK_SIDECARS_ARGUMENTS);
    let started = async { tokio::try_join!(source, target) };
    let started = checks.succeed("both launchers are ready", started.await);
    let (source, target) = started.context("a launcher did not get ready")?;
    let pods = MigrationPods { source, target };
    migration_checks::check_pods(checks, &pods);
    Ok(pods)
}

/// Boots the VM on the source and returns the identity of this boot.
async fn boot(
    timeline: &Timeline,
    checks: &mut Checks,
    pods: &MigrationPods,
    vmi: &Vmi,
) -> Result<GuestIdentity> {
    timeline.print("source virt-handler", "SyncVirtualMachine");
    let booted = pods.source.boot_without_controller(vmi).await;
    checks
        .succeed("the VM starts on the source", booted)
        .context("the VM did not start")?;
    let console = pods.source.pod.console(vmi);
    let reports = console.wait_for_boots(1, BOOT_TIMEOUT).await;
    checks
        .succeed("the guest comes up", reports)
        .context("the guest did not come up")?;
    let vendor = format!("board_vendor: {MANUFACTURER}");
    checks.check(
        "the guest's board vendor is what the smbios hook set",
        console.has_reported(&vendor),
        || console.text(),
    );
    pods.source.wait_for_agent(vmi).await?;
    GuestIdentity::read(&pods.source, vmi).await
}

async fn migrate(
    timeline: &Timeline,
    checks: &mut Checks,
    pods: &MigrationPods,
    vmi: &Vmi,
) -> Result<()> {
    // The disk is a file in the pod, so its data is migrated too.
    let vmi = migrating(&demo_vmis::with_cache_mode(vmi), MIGRATION_UID)
        .edit(|vmi| vmi["status"]["migrationMethod"] = serde_json::json!("BlockMigration"));
    timeline.print(
        "target virt-handler",
        &format!(
            "SyncMigrationTarget; the VMI asks for the cache mode {CACHE_MODE} since its boot"
        ),
    );
    let proxies = pods.prepare_target(&vmi, MIGRATION_UID).await;
    let proxies = checks.succeed(
        "the target is prepared, and its hooks have no objection",
        proxies,
    );
    let _proxies = proxies.context("the target is not prepared")?;
    checks.check(
        "nothing is published or defined yet",
        pods.target.handler.events().is_empty(),
        || pods.target.handler.history(),
    );
    timeline.print("source virt-handler", "MigrateVirtualMachine");
    let begin = pods.target.handler.now();
    pods.migrate(&vmi, &stock_options()).await?.accepted()?;
    let arrived = checks.succeed(
        "the target reports the migration's end",
        pods.wait_for_any_target_end().await,
    );
    let arrived = arrived.context("the VM did not arrive")?;
    let left = pods.wait_for_source_end(MIGRATION_UID).await;
    let left = checks.succeed("and so does the source", left);
    let left = left.context("the source reports no end")?;
    migration_checks::check_notifications(checks, pods, &arrived, &left);
    let job = tests::virsh::completed_job(&pods.source.pod, &vmi).await?;
    timeline.print(
        "demo",
        &format!(
            "from the request to the target's EndTimestamp {} ms; the guest ran nowhere for {} ms",
            arrived.at.saturating_sub(begin).as_millis(),
            job.downtime
        ),
    );
    timeline.print(
        "target virt-handler",
        "FinalizeVirtualMachineMigration, SyncVirtualMachine",
    );
    let finalized = pods.finalize(&vmi).await?;
    checks.check(
        "the target accepts the migration's end",
        finalized.success,
        || finalized.message.clone(),
    );
    let synced = async { pods.target.commands.sync(&vmi).await?.accepted() };
    checks.succeed("and is in charge of the VM", synced.await);
    Ok(())
}

async fn end(
    timeline: &Timeline,
    checks: &mut Checks,
    pods: MigrationPods,
    vmi: &Vmi,
) -> Result<()> {
    timeline.print(
        "source virt-handler",
        "DeleteVirtualMachine: the VM has left",
    );
    let MigrationPods { mut source, target } = pods;
    source.commands.delete(vmi).await?.accepted()?;
    let status = source.pod.wait_for_exit(BOOT_TIMEOUT).await?;
    checks.check(
        "the source's pod ends with exit code 0",
        status.code() == Some(0),
        || status.to_string(),
    );
    let left = source.pod.processes();
    checks.check("and leaves no process", left.is_empty(), || {
        format!("{left:?}")
    });
    let alive = target.commands.guest_ping(vmi, 5).await;
    checks.succeed(
        "the guest on the target does not notice",
        alive.map(drop).map_err(Into::into),
    );
    timeline.print(
        "target virt-handler",
        "KillVirtualMachine, DeleteVirtualMachine",
    );
    let ended = tokio::time::timeout(Duration::from_secs(60), target.end_vm(vmi)).await;
    let ended = ended.context("the target's pod does not end")?;
    checks.succeed("the VM and the target's pod end with exit code 0", ended);
    Ok(())
}
