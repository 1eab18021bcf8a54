//! The story on libvirt's in-process test driver: hooks, conversion, commands and notifications are real, the VM is not.

use std::time::Duration;

use anyhow::{Context, Result};
use tests::hooks;
use tests::pod::{Pod, User};
use tests::scenario::{EVENT, READY};
use tests::virt_handler::VirtHandler;
use tests::vmi::Vmi;

use crate::checks::Checks;
use crate::follow::{Follow, entries};
use crate::hook_run::HookRun;
use crate::qemu::{MANUFACTURER, USER_DATA};
use crate::timeline::Timeline;

/// As the other story's, without what only QEMU can boot.
fn vmi() -> Vmi {
    Vmi::new("demo", User::Root)
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
        "libvirt's test driver: no QEMU, no daemon, no guest",
    );
    let vmi = vmi();
    let mut pod = Pod::create_unprivileged()?;
    pod.keep_quiet();
    let handler = VirtHandler::listen(&pod.share_dir())?;
    let follow = Follow {
        timeline: timeline.clone(),
        log: pod.log_path(),
        events: handler.feed(),
        console: pod.console(&vmi),
        told: [0; 3],
    };
    let follower = follow.start();
    let told = tell(timeline, checks, &mut pod, &handler, &vmi).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    follower.abort();
    told.with_context(|| format!("the launcher's log:\n{}", pod.log()))
}

async fn tell(
    timeline: &Timeline,
    checks: &mut Checks,
    pod: &mut Pod,
    handler: &VirtHandler,
    vmi: &Vmi,
) -> Result<()> {
    let hooks_dir = pod.hooks_dir()?;
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
    pod.start(
        vmi,
        &["--hook-sidecars", "2", "--libvirt-uri", "test:///default"],
    )?;
    let commands = handler.commands(READY).await;
    let commands = checks
        .succeed("the launcher is ready once both hooks are", commands)
        .context("not ready")?;

    let answer = commands.sync(vmi).await?;
    checks.hold("SyncVirtualMachine succeeds", answer.success, || {
        answer.message.clone()
    });
    answer.ok()?;
    let running = handler.wait_for_state("Running/Unknown", 0, EVENT).await;
    checks.succeed("the domain is reported as Running", running);
    let runs: Vec<HookRun> = entries(&pod.log_path())
        .iter()
        .filter_map(HookRun::read)
        .collect();
    let names = || {
        runs.iter()
            .map(HookRun::tell)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let smbios = runs
        .iter()
        .any(|run| run.hook_point == "OnDefineDomain" && run.changed_to(MANUFACTURER));
    checks.hold(
        "the smbios hook's change of the domain XML is on record",
        smbios,
        names,
    );
    let cloud_init = runs
        .iter()
        .any(|run| run.hook_point == "PreCloudInitIso" && run.changed());
    checks.hold(
        "the cloud-init hook's change of the user data is on record",
        cloud_init,
        names,
    );

    for (what, state) in [("pause", "Paused/User"), ("unpause", "Running/Unknown")] {
        let before = handler.events().len();
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
    let answer = commands.kill(vmi).await?;
    checks.hold("kill succeeds", answer.success, || answer.message.clone());
    let answer = commands.delete(vmi).await?;
    checks.hold("delete succeeds", answer.success, || answer.message.clone());
    let end = handler
        .wait_for_state("NoState/NonExistent", 0, EVENT)
        .await;
    checks.succeed("the last notification says that the domain is gone", end);
    let status = pod.ended(READY).await?;
    checks.hold(
        "launcher and monitor end with exit code 0",
        status.code() == Some(0),
        || status.to_string(),
    );
    Ok(())
}
