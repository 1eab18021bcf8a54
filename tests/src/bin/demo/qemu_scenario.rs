//! The demo on real QEMU.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tests::build_and_install_hooks as hooks;
use tests::emulated_virt_handler::Phase;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use crate::demo_checks::Checks;
use crate::demo_vmis;
use crate::guest_report_checks::check_guest_reports;
use crate::pause_and_unpause::pause_and_unpause;
use crate::timeline::Timeline;
use crate::timeline_follower::TimelineFollower;

pub(crate) async fn run(
    timeline: &Timeline,
    checks: &mut Checks,
    user: LauncherUser,
) -> Result<()> {
    timeline.print(
        "demo",
        &format!("preparing a pod for {user:?}: its own mounts, processes and network"),
    );
    let prepared = PreparedPod::create(user)?;
    let vmi = demo_vmis::for_qemu(user);
    let follower = TimelineFollower::start(timeline, &prepared.pod, &prepared.handler, &vmi);
    let outcome = run_steps(timeline, checks, prepared, &vmi).await;
    follower.finish().await;
    outcome
}

async fn run_steps(
    timeline: &Timeline,
    checks: &mut Checks,
    prepared: PreparedPod,
    vmi: &Vmi,
) -> Result<()> {
    let mut fixture = collect_hooks(timeline, checks, prepared, vmi).await?;
    boot(timeline, checks, &fixture, vmi).await?;
    check_guest_reports(checks, &fixture, vmi);
    run_commands(timeline, checks, &fixture, vmi).await?;
    end(timeline, checks, &mut fixture, vmi).await
}

/// Starts the launcher with one of its two hooks, and checks that it waits for the second.
async fn collect_hooks(
    timeline: &Timeline,
    checks: &mut Checks,
    mut prepared: PreparedPod,
    vmi: &Vmi,
) -> Result<LauncherFixture> {
    let hooks_dir = prepared.pod.hooks_dir()?;
    let (smbios, cloud_init) = (
        hooks::example("smbios-hook")?,
        hooks::example("cloud-init-hook")?,
    );
    prepared.pod.suppress_log();
    hooks::install(&hooks_dir, "hook-sidecar-0", &smbios)?;
    timeline.print(
        "demo",
        "hook 1 of 2 is there: smbios; starting monitor and launcher with --hook-sidecars 2",
    );
    prepared.pod.start(vmi, &["--hook-sidecars", "2"])?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let socket = prepared.pod.path("/run/kubevirt/sockets/launcher-sock");
    checks.check(
        "the launcher waits until both hooks are there",
        !socket.exists(),
        || format!("{} was there before the second hook", socket.display()),
    );
    timeline.print("demo", "hook 2 of 2 arrives: cloud-init");
    hooks::install(&hooks_dir, "hook-sidecar-1", &cloud_init)?;
    let arrived = Instant::now();
    let fixture = checks.succeed("then it is ready", prepared.wait_until_ready().await);
    let fixture = fixture.context("the launcher did not get ready")?;
    timeline.print(
        "launcher",
        &format!(
            "ready {} ms after the second hook",
            arrived.elapsed().as_millis()
        ),
    );
    Ok(fixture)
}

async fn boot(
    timeline: &Timeline,
    checks: &mut Checks,
    fixture: &LauncherFixture,
    vmi: &Vmi,
) -> Result<()> {
    timeline.print("demo", "creating the VMI; virt-handler starts it");
    fixture.handler.create(vmi).await;
    let running = fixture.handler.wait_for_running(BOOT_TIMEOUT).await;
    checks
        .succeed(
            "virt-handler starts the VM, and the VMI is Running",
            running,
        )
        .context("the VM did not start")?;
    let reports = fixture
        .pod
        .console(vmi)
        .wait_for_boots(1, BOOT_TIMEOUT)
        .await;
    checks
        .succeed("the guest comes up", reports)
        .context("the guest did not come up")?;
    let states = fixture.handler.states();
    let mut seen = states.clone();
    seen.dedup();
    let expected = [
        "ADDED Shutoff/Unknown",
        "MODIFIED Shutoff/Unknown",
        "MODIFIED Paused/StartingUp",
        "MODIFIED Running/Unknown",
    ];
    checks.check(
        "notifications: defined, then with its metadata, starting up, then running",
        seen == expected,
        || states.join(", "),
    );
    Ok(())
}

async fn run_commands(
    timeline: &Timeline,
    checks: &mut Checks,
    fixture: &LauncherFixture,
    vmi: &Vmi,
) -> Result<()> {
    let commands = &fixture.commands;
    timeline.print("virt-handler", "GuestPing, until the guest agent answers");
    let agent = fixture.wait_for_agent(vmi).await;
    checks.succeed("GuestPing reaches the guest agent", agent);
    let exec = commands
        .exec(vmi, "/bin/uname", &["-sr"])
        .await
        .map_err(Into::into);
    if let Some(answer) = checks.succeed("Exec runs a command in the guest", exec) {
        timeline.print(
            "virt-handler",
            &format!("Exec uname -sr: {}", answer.std_out.trim()),
        );
        checks.check(
            "and gives its output",
            answer.std_out.starts_with("Linux"),
            || format!("{answer:?}"),
        );
    }
    pause_and_unpause(timeline, checks, fixture, vmi).await?;
    Ok(())
}

async fn end(
    timeline: &Timeline,
    checks: &mut Checks,
    fixture: &mut LauncherFixture,
    vmi: &Vmi,
) -> Result<()> {
    let before = fixture.handler.events().len();
    let launcher = fixture.pod.process("virt-launcher");
    timeline.print("demo", "deleting the VMI; virt-handler ends it");
    fixture.handler.delete();
    let off = fixture
        .handler
        .wait_for_state("Shutoff/Shutdown", before, BOOT_TIMEOUT)
        .await;
    checks.succeed(
        "the guest powers itself off and that is reported as Shutoff/Shutdown",
        off,
    );
    let console = fixture.pod.console(vmi);
    checks.check(
        "the guest was asked, not killed",
        console.has_reported("powering off"),
        || console.text(),
    );
    let launcher_exit = tests::wait_until("the launcher's end", BOOT_TIMEOUT, async || {
        let alive = launcher
            .as_ref()
            .and_then(|process| process.status("State"));
        alive
            .is_none_or(|state| state.starts_with('Z'))
            .then_some(Instant::now())
    });
    let launcher_exit = checks.succeed("the launcher ends", launcher_exit.await);
    let status = fixture.pod.wait_for_exit(BOOT_TIMEOUT).await?;
    let after = launcher_exit.map(|at| at.elapsed()).unwrap_or_default();
    timeline.print(
        "monitor",
        &format!(
            "ended with {status}, {} ms after the launcher",
            after.as_millis()
        ),
    );
    checks.check(
        "the monitor ends with exit code 0",
        status.code() == Some(0),
        || status.to_string(),
    );
    checks.check(
        "within half a second of the launcher",
        after < Duration::from_millis(500),
        || format!("{after:?}"),
    );
    let end = fixture
        .handler
        .wait_for_state("NoState/NonExistent", before, EVENT_TIMEOUT)
        .await;
    let deletion = end.map(|event| event.domain()["ObjectMeta"]["deletionTimestamp"].is_string());
    if let Some(stamped) = checks.succeed(
        "the last notification says that the domain is gone",
        deletion,
    ) {
        checks.check("and bears a deletion timestamp", stamped, || {
            fixture.handler.history()
        });
    }
    let phase = fixture
        .handler
        .wait_for_phase(Phase::Succeeded, EVENT_TIMEOUT)
        .await;
    checks.succeed("the VMI's phase is Succeeded", phase);
    checks.succeed(
        "virt-handler deleted no domain before its time",
        fixture.handler.check(),
    );
    Ok(())
}
