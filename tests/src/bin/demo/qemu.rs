//! The story on real QEMU.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tests::hooks;
use tests::pod::User;
use tests::scenario::{BOOT, EVENT, Scene, Stage};
use tests::vmi::Vmi;

use crate::checks::Checks;
use crate::follow::{Follow, runs};
use crate::hook_run;
use crate::timeline::Timeline;

pub(crate) const MANUFACTURER: &str = "Radical Edward";
/// What the cloud-init hook makes the guest write.
const HOOK_FILE: &str = "/etc/kubevirt-hook";
pub(crate) const USER_DATA: &str = "#cloud-config\npassword: demo\n";

/// The VMI that the demo boots, hooks or none.
pub(crate) fn vmi(user: User) -> Vmi {
    Vmi::new("demo", user)
        .annotate("smbios.vm.kubevirt.io/baseBoardManufacturer", MANUFACTURER)
        .cloud_init(USER_DATA)
        .empty_disk("scratch", "64Mi")
        .grace_period(20)
}

pub(crate) async fn play(timeline: &Timeline, checks: &mut Checks, user: User) -> Result<()> {
    timeline.say(
        "demo",
        &format!("preparing a pod for {user:?}: its own mounts, processes and network"),
    );
    let stage = Stage::set(user)?;
    let vmi = vmi(user);
    let follower = Follow::start(timeline, &stage.pod, &stage.handler, &vmi);
    let told = tell(timeline, checks, stage, &vmi).await;
    // The last lines are on their way.
    tokio::time::sleep(Duration::from_millis(100)).await;
    follower.abort();
    told
}

async fn tell(timeline: &Timeline, checks: &mut Checks, stage: Stage, vmi: &Vmi) -> Result<()> {
    let mut scene = collect_hooks(timeline, checks, stage, vmi).await?;
    boot(timeline, checks, &scene, vmi).await?;
    look_inside(checks, &scene, vmi);
    use_it(timeline, checks, &scene, vmi).await?;
    end(timeline, checks, &mut scene, vmi).await
}

/// The launcher waits for two hooks; the second comes late.
async fn collect_hooks(
    timeline: &Timeline,
    checks: &mut Checks,
    mut stage: Stage,
    vmi: &Vmi,
) -> Result<Scene> {
    let hooks_dir = stage.pod.hooks_dir()?;
    let (smbios, cloud_init) = (
        hooks::example("smbios-hook")?,
        hooks::example("cloud-init-hook")?,
    );
    stage.pod.keep_quiet();
    hooks::install(&hooks_dir, "hook-sidecar-0", &smbios)?;
    timeline.say(
        "demo",
        "hook 1 of 2 is there: smbios; starting monitor and launcher with --hook-sidecars 2",
    );
    stage.pod.start(vmi, &["--hook-sidecars", "2"])?;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let socket = stage.pod.path("/run/kubevirt/sockets/launcher-sock");
    checks.hold(
        "the launcher waits until both hooks are there",
        !socket.exists(),
        || format!("{} was there before the second hook", socket.display()),
    );
    timeline.say("demo", "hook 2 of 2 arrives: cloud-init");
    hooks::install(&hooks_dir, "hook-sidecar-1", &cloud_init)?;
    let arrived = Instant::now();
    let scene = checks.succeed("then it is ready", stage.ready().await);
    let scene = scene.context("the launcher did not get ready")?;
    timeline.say(
        "launcher",
        &format!(
            "ready {} ms after the second hook",
            arrived.elapsed().as_millis()
        ),
    );
    Ok(scene)
}

async fn boot(timeline: &Timeline, checks: &mut Checks, scene: &Scene, vmi: &Vmi) -> Result<()> {
    let asked = Instant::now();
    let answer = scene.commands.sync(vmi).await?;
    timeline.say(
        "virt-handler",
        &format!(
            "SyncVirtualMachine answered in {} ms",
            asked.elapsed().as_millis()
        ),
    );
    checks.hold("SyncVirtualMachine succeeds", answer.success, || {
        answer.message.clone()
    });
    answer.ok()?;
    let facts = scene.pod.console(vmi).ready(1, BOOT).await;
    checks
        .succeed("the guest comes up", facts)
        .context("the guest did not come up")?;
    let states = scene.handler.states();
    let mut seen = states.clone();
    seen.dedup();
    let wanted = [
        "ADDED Shutoff/Unknown",
        "MODIFIED Shutoff/Unknown",
        "MODIFIED Paused/StartingUp",
        "MODIFIED Running/Unknown",
    ];
    checks.hold(
        "notifications: defined, then with its metadata, starting up, then running",
        seen == wanted,
        || states.join(", "),
    );
    Ok(())
}

/// What the guest tells against what the hooks were to do.
fn look_inside(checks: &mut Checks, scene: &Scene, vmi: &Vmi) {
    hook_run::check(checks, &runs(&scene.pod.log_path()), MANUFACTURER);

    let console = scene.pod.console(vmi);
    let vendor = format!("board_vendor: {MANUFACTURER}");
    checks.hold(
        "the guest's board vendor is what the smbios hook set",
        console.told(&vendor),
        || console.text(),
    );
    let user_data: Vec<String> = console
        .facts()
        .iter()
        .filter_map(|fact| Some(fact.strip_prefix("user-data: ")?.trim_end().to_owned()))
        .collect();
    let ours: Vec<&str> = USER_DATA.lines().collect();
    let kept = ours
        .iter()
        .all(|line| user_data.iter().any(|have| have == line));
    checks.hold(
        "the guest's user data still holds what the VMI says",
        kept,
        || user_data.join("\n"),
    );
    let added = user_data.iter().any(|line| line.contains(HOOK_FILE));
    checks.hold("and what the cloud-init hook added", added, || {
        user_data.join("\n")
    });
    let identity = user_data_instance(&console.facts());
    checks.hold(
        "the guest found the NoCloud volume and its meta data",
        identity,
        || console.text(),
    );
}

fn user_data_instance(facts: &[String]) -> bool {
    facts
        .iter()
        .any(|fact| fact.starts_with("meta-data: ") && fact.contains("instance-id"))
}

async fn use_it(timeline: &Timeline, checks: &mut Checks, scene: &Scene, vmi: &Vmi) -> Result<()> {
    let commands = &scene.commands;
    timeline.say("virt-handler", "GuestPing, until the guest agent answers");
    let agent = scene.agent(vmi).await;
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
        checks.hold(
            "and gives its output",
            answer.std_out.starts_with("Linux"),
            || format!("{answer:?}"),
        );
    }
    for (what, state) in [("pause", "Paused/User"), ("unpause", "Running/Unknown")] {
        let before = scene.handler.events().len();
        timeline.say("virt-handler", what);
        let answer = if what == "pause" {
            commands.pause(vmi).await?
        } else {
            commands.unpause(vmi).await?
        };
        checks.hold(&format!("{what} succeeds"), answer.success, || {
            answer.message.clone()
        });
        let event = scene.handler.wait_for_state(state, before, EVENT).await;
        checks.succeed(&format!("and is reported as {state}"), event);
    }
    Ok(())
}

async fn end(timeline: &Timeline, checks: &mut Checks, scene: &mut Scene, vmi: &Vmi) -> Result<()> {
    let before = scene.handler.events().len();
    timeline.say("virt-handler", "ShutdownVirtualMachine");
    let answer = scene.commands.shutdown(vmi).await?;
    checks.hold("ShutdownVirtualMachine succeeds", answer.success, || {
        answer.message.clone()
    });
    let off = scene
        .handler
        .wait_for_state("Shutoff/Shutdown", before, BOOT)
        .await;
    checks.succeed(
        "the guest powers itself off and that is reported as Shutoff/Shutdown",
        off,
    );
    let console = scene.pod.console(vmi);
    checks.hold(
        "the guest was asked, not killed",
        console.told("powering off"),
        || console.text(),
    );
    let launcher = scene.pod.process("virt-launcher");
    // virt-handler deletes the domain once it is off; the launcher may have ended by then.
    let deleted = scene.commands.delete(vmi).await;
    timeline.say(
        "virt-handler",
        &format!("DeleteVirtualMachine: {}", outcome(&deleted)),
    );
    let gone = tests::until("the launcher's end", BOOT, async || {
        let alive = launcher
            .as_ref()
            .and_then(|process| process.status("State"));
        alive
            .is_none_or(|state| state.starts_with('Z'))
            .then_some(Instant::now())
    });
    let gone = checks.succeed("the launcher ends", gone.await);
    let status = scene.pod.ended(BOOT).await?;
    let after = gone.map(|at| at.elapsed()).unwrap_or_default();
    timeline.say(
        "monitor",
        &format!(
            "ended with {status}, {} ms after the launcher",
            after.as_millis()
        ),
    );
    checks.hold(
        "the monitor ends with exit code 0",
        status.code() == Some(0),
        || status.to_string(),
    );
    checks.hold(
        "within half a second of the launcher",
        after < Duration::from_millis(500),
        || format!("{after:?}"),
    );
    let end = scene
        .handler
        .wait_for_state("NoState/NonExistent", before, EVENT)
        .await;
    let deletion = end.map(|event| event.domain()["ObjectMeta"]["deletionTimestamp"].is_string());
    if let Some(stamped) = checks.succeed(
        "the last notification says that the domain is gone",
        deletion,
    ) {
        checks.hold("and bears a deletion timestamp", stamped, || {
            scene.handler.history()
        });
    }
    Ok(())
}

fn outcome(answer: &Result<tests::virt_handler::Answer, tonic::Status>) -> String {
    match answer {
        Ok(answer) if answer.success => "done".into(),
        Ok(answer) => format!("refused: {}", answer.message),
        Err(_) => "the launcher has ended already".into(),
    }
}
