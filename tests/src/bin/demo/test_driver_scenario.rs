//! The demo on libvirt's in-process test driver: hooks, conversion, commands and notifications are real, the VM is not.

use anyhow::{Context, Result};
use tests::build_and_install_hooks as hooks;
use tests::emulated_virt_handler::{Phase, VirtHandler};
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture, PreparedPod, READY_TIMEOUT};
use tests::pod::Pod;
use tests::vmi_builder::Vmi;

use crate::demo_checks::Checks;
use crate::demo_vmis::{self, MANUFACTURER};
use crate::hook_change_checks::check_hook_changes;
use crate::hook_runs_in_log::runs_in_log;
use crate::pause_and_unpause::pause_and_unpause;
use crate::timeline::Timeline;
use crate::timeline_follower::TimelineFollower;

pub(crate) async fn run(timeline: &Timeline, checks: &mut Checks) -> Result<()> {
    timeline.print(
        "demo",
        "libvirt's test driver: no QEMU, no daemon, no guest, no root",
    );
    let vmi = demo_vmis::for_test_driver();
    let pod = Pod::create_unprivileged()?;
    let handler = VirtHandler::listen(&pod.share_dir())?;
    let follower = TimelineFollower::start(timeline, &pod, &handler, &vmi);
    let outcome = run_steps(timeline, checks, PreparedPod { pod, handler }, &vmi).await;
    follower.finish().await;
    outcome
}

async fn run_steps(
    timeline: &Timeline,
    checks: &mut Checks,
    prepared: PreparedPod,
    vmi: &Vmi,
) -> Result<()> {
    let mut fixture = start(timeline, checks, prepared, vmi).await?;
    boot(checks, &fixture, vmi).await?;
    pause_and_unpause(timeline, checks, &fixture, vmi).await?;
    end(timeline, checks, &mut fixture).await
}

async fn start(
    timeline: &Timeline,
    checks: &mut Checks,
    mut prepared: PreparedPod,
    vmi: &Vmi,
) -> Result<LauncherFixture> {
    prepared.pod.suppress_log();
    let hooks_dir = prepared.pod.hooks_dir()?;
    hooks::install(
        &hooks_dir,
        "hook-sidecar-0",
        &hooks::example("smbios-hook")?,
    )?;
    hooks::install(
        &hooks_dir,
        "hook-sidecar-1",
        &hooks::example("cloud-init-hook")?,
    )?;
    timeline.print(
        "demo",
        "starting monitor and launcher with --hook-sidecars 2 --libvirt-uri test:///default",
    );
    prepared.pod.start(
        vmi,
        &["--hook-sidecars", "2", "--libvirt-uri", "test:///default"],
    )?;
    let fixture = checks.succeed(
        "the launcher is ready once both hooks are",
        prepared.wait_until_ready().await,
    );
    fixture.context("the launcher did not get ready")
}

async fn boot(checks: &mut Checks, fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    fixture.handler.create(vmi).await;
    let running = fixture.handler.wait_for_running(EVENT_TIMEOUT).await;
    checks.succeed(
        "virt-handler starts the VM, and the VMI is Running",
        running,
    );
    check_hook_changes(checks, &runs_in_log(&fixture.pod.log_path()), MANUFACTURER);
    let domain = fixture.commands.domain().await?;
    let board = domain["Spec"]["SysInfo"]["BaseBoard"].to_string();
    checks.check(
        "GetDomain shows the board that the smbios hook set",
        board.contains(MANUFACTURER),
        || board.clone(),
    );
    Ok(())
}

async fn end(
    timeline: &Timeline,
    checks: &mut Checks,
    fixture: &mut LauncherFixture,
) -> Result<()> {
    timeline.print(
        "demo",
        "deleting the VMI without a grace period; virt-handler kills it",
    );
    fixture.handler.delete_now();
    let phase = fixture
        .handler
        .wait_for_phase(Phase::Succeeded, EVENT_TIMEOUT)
        .await;
    checks.succeed("the VMI's phase is Succeeded", phase);
    let end = fixture
        .handler
        .wait_for_state("NoState/NonExistent", 0, EVENT_TIMEOUT)
        .await;
    checks.succeed("the last notification says that the domain is gone", end);
    let status = fixture.pod.wait_for_exit(READY_TIMEOUT).await?;
    checks.check(
        "launcher and monitor end with exit code 0",
        status.code() == Some(0),
        || status.to_string(),
    );
    checks.succeed(
        "virt-handler deleted no domain before its time",
        fixture.handler.check(),
    );
    Ok(())
}
