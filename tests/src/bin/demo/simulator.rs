//! The story on libvirt's in-process test driver: hooks, conversion, commands and notifications are real, the VM is not.

use std::time::Duration;

use anyhow::{Context, Result};
use tests::hooks;
use tests::pod::{Pod, User};
use tests::scenario::{EVENT, READY, Scene, Stage};
use tests::virt_handler::VirtHandler;
use tests::vmi::Vmi;

use crate::checks::Checks;
use crate::follow::{Follow, runs};
use crate::hook_run;
use crate::qemu::{MANUFACTURER, USER_DATA};
use crate::timeline::Timeline;

/// As the other story's, without what only QEMU can boot.
fn vmi() -> Vmi {
    Vmi::new("demo", User::Nonroot)
        .annotate("smbios.vm.kubevirt.io/baseBoardManufacturer", MANUFACTURER)
        .cloud_init(USER_DATA)
        .edit(|vmi| {
            if let Some(firmware) = vmi["spec"]["domain"]["firmware"].as_object_mut() {
                firmware.remove("kernelBoot");
            }
        })
}

pub(crate) async fn play(timeline: &Timeline, checks: &mut Checks) -> Result<()> {
    timeline.say(
        "demo",
        "libvirt's test driver: no QEMU, no daemon, no guest, no root",
    );
    let vmi = vmi();
    let pod = Pod::create_unprivileged()?;
    let handler = VirtHandler::listen(&pod.share_dir())?;
    let follower = Follow::start(timeline, &pod, &handler, &vmi);
    let told = tell(timeline, checks, Stage { pod, handler }, &vmi).await;
    // The last lines are on their way.
    tokio::time::sleep(Duration::from_millis(100)).await;
    follower.abort();
    told
}

async fn tell(timeline: &Timeline, checks: &mut Checks, stage: Stage, vmi: &Vmi) -> Result<()> {
    let mut scene = start(timeline, checks, stage, vmi).await?;
    boot(checks, &scene, vmi).await?;
    pause(timeline, checks, &scene, vmi).await?;
    end(timeline, checks, &mut scene, vmi).await
}

async fn start(
    timeline: &Timeline,
    checks: &mut Checks,
    mut stage: Stage,
    vmi: &Vmi,
) -> Result<Scene> {
    stage.pod.keep_quiet();
    let hooks_dir = stage.pod.hooks_dir()?;
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
    timeline.say(
        "demo",
        "starting monitor and launcher with --hook-sidecars 2 --libvirt-uri test:///default",
    );
    stage.pod.start(
        vmi,
        &["--hook-sidecars", "2", "--libvirt-uri", "test:///default"],
    )?;
    let scene = checks.succeed(
        "the launcher is ready once both hooks are",
        stage.ready().await,
    );
    scene.context("the launcher did not get ready")
}

async fn boot(checks: &mut Checks, scene: &Scene, vmi: &Vmi) -> Result<()> {
    let answer = scene.commands.sync(vmi).await?;
    checks.hold("SyncVirtualMachine succeeds", answer.success, || {
        answer.message.clone()
    });
    answer.ok()?;
    let running = scene
        .handler
        .wait_for_state("Running/Unknown", 0, EVENT)
        .await;
    checks.succeed("the domain is reported as Running", running);
    hook_run::check(checks, &runs(&scene.pod.log_path()), MANUFACTURER);
    let domain = scene.commands.domain().await?;
    let board = domain["Spec"]["SysInfo"]["BaseBoard"].to_string();
    checks.hold(
        "GetDomain shows the board that the smbios hook set",
        board.contains(MANUFACTURER),
        || board.clone(),
    );
    Ok(())
}

async fn pause(timeline: &Timeline, checks: &mut Checks, scene: &Scene, vmi: &Vmi) -> Result<()> {
    let (commands, handler) = (&scene.commands, &scene.handler);
    for (what, state) in [("pause", "Paused/User"), ("unpause", "Running/Unknown")] {
        let before = handler.events().len();
        timeline.say("virt-handler", what);
        let answer = if what == "pause" {
            commands.pause(vmi).await?
        } else {
            commands.unpause(vmi).await?
        };
        checks.hold(&format!("{what} succeeds"), answer.success, || {
            answer.message.clone()
        });
        checks.succeed(
            &format!("and is reported as {state}"),
            handler.wait_for_state(state, before, EVENT).await,
        );
    }
    Ok(())
}

async fn end(timeline: &Timeline, checks: &mut Checks, scene: &mut Scene, vmi: &Vmi) -> Result<()> {
    timeline.say("virt-handler", "kill and delete");
    let answer = scene.commands.kill(vmi).await?;
    checks.hold("kill succeeds", answer.success, || answer.message.clone());
    let answer = scene.commands.delete(vmi).await?;
    checks.hold("delete succeeds", answer.success, || answer.message.clone());
    let end = scene
        .handler
        .wait_for_state("NoState/NonExistent", 0, EVENT)
        .await;
    checks.succeed("the last notification says that the domain is gone", end);
    let status = scene.pod.ended(READY).await?;
    checks.hold(
        "launcher and monitor end with exit code 0",
        status.code() == Some(0),
        || status.to_string(),
    );
    Ok(())
}
