//! The demo on real QEMU.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::{BOOT, EVENT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::virt_handler::Phase;
use tests::vmi_builder::Vmi;

use crate::demo_checks::Checks;
use crate::event_follower::{EventFollower, runs};
use crate::logged_hook_run;
use crate::timeline::Timeline;

pub(crate) const MANUFACTURER: &str = "Radical Edward";
/// What the cloud-init hook makes the guest write.
const HOOK_FILE: &str = "/etc/kubevirt-hook";
pub(crate) const USER_DATA: &str = "#cloud-config\npassword: demo\n";

/// The VMI that the demo boots, with or without hooks.
pub(crate) fn vmi(user: LauncherUser) -> Vmi {
    Vmi::new("demo", user)
        .annotate("smbios.vm.kubevirt.io/baseBoardManufacturer", MANUFACTURER)
        .cloud_init(USER_DATA)
        .empty_disk("scratch", "64Mi")
        .grace_period(20)
}

pub(crate) async fn run(
    timeline: &Timeline,
    checks: &mut Checks,
    user: LauncherUser,
) -> Result<()> {
    timeline.say(
        "demo",
        &format!("preparing a pod for {user:?}: its own mounts, processes and network"),
    );
    let prepared = PreparedPod::create(user)?;
    let vmi = vmi(user);
    let following = EventFollower::start(timeline, &prepared.pod, &prepared.handler, &vmi);
    let outcome = run_steps(timeline, checks, prepared, &vmi).await;
    following.finish().await;
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

/// The launcher waits for two hooks; the second comes late.
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
    timeline.say(
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
    timeline.say("demo", "hook 2 of 2 arrives: cloud-init");
    hooks::install(&hooks_dir, "hook-sidecar-1", &cloud_init)?;
    let arrived = Instant::now();
    let fixture = checks.succeed("then it is ready", prepared.wait_until_ready().await);
    let fixture = fixture.context("the launcher did not get ready")?;
    timeline.say(
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
    timeline.say("demo", "creating the VMI; virt-handler starts it");
    fixture.handler.create(vmi).await;
    let running = fixture.handler.wait_for_running(BOOT).await;
    checks
        .succeed(
            "virt-handler starts the VM, and the VMI is Running",
            running,
        )
        .context("the VM did not start")?;
    let reports = fixture.pod.console(vmi).wait_for_boots(1, BOOT).await;
    checks
        .succeed("the guest comes up", reports)
        .context("the guest did not come up")?;
    let states = fixture.handler.states();
    let mut seen = states.clone();
    seen.dedup();
    let wanted = [
        "ADDED Shutoff/Unknown",
        "MODIFIED Shutoff/Unknown",
        "MODIFIED Paused/StartingUp",
        "MODIFIED Running/Unknown",
    ];
    checks.check(
        "notifications: defined, then with its metadata, starting up, then running",
        seen == wanted,
        || states.join(", "),
    );
    Ok(())
}

/// Compares the guest's reports with what the hooks should have changed.
fn check_guest_reports(checks: &mut Checks, fixture: &LauncherFixture, vmi: &Vmi) {
    logged_hook_run::check(checks, &runs(&fixture.pod.log_path()), MANUFACTURER);

    let console = fixture.pod.console(vmi);
    let vendor = format!("board_vendor: {MANUFACTURER}");
    checks.check(
        "the guest's board vendor is what the smbios hook set",
        console.has_reported(&vendor),
        || console.text(),
    );
    let user_data: Vec<String> = console
        .reports()
        .iter()
        .filter_map(|report| Some(report.strip_prefix("user-data: ")?.trim_end().to_owned()))
        .collect();
    let ours: Vec<&str> = USER_DATA.lines().collect();
    let kept = ours
        .iter()
        .all(|line| user_data.iter().any(|have| have == line));
    checks.check(
        "the guest's user data still holds what the VMI says",
        kept,
        || user_data.join("\n"),
    );
    let added = user_data.iter().any(|line| line.contains(HOOK_FILE));
    checks.check("and what the cloud-init hook added", added, || {
        user_data.join("\n")
    });
    let identity = user_data_instance(&console.reports());
    checks.check(
        "the guest found the NoCloud volume and its meta data",
        identity,
        || console.text(),
    );
}

fn user_data_instance(reports: &[String]) -> bool {
    reports
        .iter()
        .any(|report| report.starts_with("meta-data: ") && report.contains("instance-id"))
}

async fn run_commands(
    timeline: &Timeline,
    checks: &mut Checks,
    fixture: &LauncherFixture,
    vmi: &Vmi,
) -> Result<()> {
    let commands = &fixture.commands;
    timeline.say("virt-handler", "GuestPing, until the guest agent answers");
    let agent = fixture.wait_for_agent(vmi).await;
    checks.succeed("GuestPing reaches the guest agent", agent);
    let exec = commands
        .exec(vmi, "/bin/uname", &["-sr"])
        .await
        .map_err(Into::into);
    if let Some(answer) = checks.succeed("Exec runs a command in the guest", exec) {
        timeline.say(
            "virt-handler",
            &format!("Exec uname -sr: {}", answer.std_out.trim()),
        );
        checks.check(
            "and gives its output",
            answer.std_out.starts_with("Linux"),
            || format!("{answer:?}"),
        );
    }
    for (what, state) in [("pause", "Paused/User"), ("unpause", "Running/Unknown")] {
        let before = fixture.handler.events().len();
        timeline.say("virt-handler", what);
        let answer = if what == "pause" {
            commands.pause(vmi).await?
        } else {
            commands.unpause(vmi).await?
        };
        checks.check(&format!("{what} succeeds"), answer.success, || {
            answer.message.clone()
        });
        let event = fixture.handler.wait_for_state(state, before, EVENT).await;
        checks.succeed(&format!("and is reported as {state}"), event);
    }
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
    timeline.say("demo", "deleting the VMI; virt-handler ends it");
    fixture.handler.delete();
    let off = fixture
        .handler
        .wait_for_state("Shutoff/Shutdown", before, BOOT)
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
    let launcher_exit = tests::until("the launcher's end", BOOT, async || {
        let alive = launcher
            .as_ref()
            .and_then(|process| process.status("State"));
        alive
            .is_none_or(|state| state.starts_with('Z'))
            .then_some(Instant::now())
    });
    let launcher_exit = checks.succeed("the launcher ends", launcher_exit.await);
    let status = fixture.pod.wait_for_exit(BOOT).await?;
    let after = launcher_exit.map(|at| at.elapsed()).unwrap_or_default();
    timeline.say(
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
        .wait_for_state("NoState/NonExistent", before, EVENT)
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
        .wait_for_phase(Phase::Succeeded, EVENT)
        .await;
    checks.succeed("the VMI's phase is Succeeded", phase);
    checks.succeed(
        "virt-handler deleted no domain before its time",
        fixture.handler.check(),
    );
    Ok(())
}
