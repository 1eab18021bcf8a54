//! Freeze and thaw, also after the daemon was killed.

use anyhow::{Context, Result, ensure};
use proto::cmd::v1 as cmd;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::{BOOT_TIMEOUT, LauncherFixture};
use tests::vmi_builder::Vmi;

use super::{guest_info, wait_for_event};

pub(super) fn freeze_status(event: &Event) -> &Value {
    &event.domain()["Status"]["FSFreezeStatus"]["Status"]
}

async fn freeze(fixture: &LauncherFixture, vmi: &Vmi, seconds: i32) -> Result<()> {
    let request = cmd::FreezeRequest {
        vmi: vmi.request().vmi,
        unfreeze_timeout_seconds: seconds,
    };
    let mut client = fixture.commands.raw.clone();
    let answer = client.freeze_virtual_machine(request).await?.into_inner();
    ensure!(answer.success && answer.message.is_empty(), "{answer:?}");
    Ok(())
}

async fn unfreeze(fixture: &LauncherFixture, vmi: &Vmi) -> Result<cmd::Response> {
    let mut client = fixture.commands.raw.clone();
    Ok(client
        .unfreeze_virtual_machine(vmi.request())
        .await?
        .into_inner())
}

fn kill_daemon(fixture: &LauncherFixture) -> Result<()> {
    let daemon = fixture.pod.daemon().context("the daemon runs")?;
    Ok(kill_process(daemon.pid, Signal::KILL)?)
}

pub(super) async fn check_freeze_and_thaw(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    fixture.wait_for_agent(vmi).await?;
    let before = fixture.handler.events().len();
    freeze(fixture, vmi, 300).await?;
    freeze(fixture, vmi, 300).await?;
    wait_for_event(fixture, "of the freeze", before, |event| {
        freeze_status(event) == "frozen"
    })
    .await?;
    let refused = fixture.commands.exec(vmi, "true", &[]).await.unwrap_err();
    // QEMU 10.0.2's agent gives the reason, 10.0.13's does not.
    let message = refused.message();
    let is_refused = message.contains("frozen") || message.contains("command is not allowed");
    assert!(is_refused, "{refused}");
    // The agent itself would report that nearly all commands are disabled.
    assert_eq!(guest_info(fixture).await?["fsFreezeStatus"], "frozen");
    let enabled = |info: &Value| {
        let commands = info["supportedCommands"].as_array();
        commands.map_or(0, |all| {
            all.iter()
                .filter(|command| command["enabled"] == true)
                .count()
        })
    };
    assert!(enabled(&guest_info(fixture).await?) > 20);
    kill_daemon(fixture)?;
    let is_thawed = async || {
        let answer = unfreeze(fixture, vmi).await.ok()?;
        answer.success.then_some(())
    };
    tests::wait_until("the thaw after the daemon's death", BOOT_TIMEOUT, is_thawed).await?;
    let before = fixture.handler.events().len().saturating_sub(1);
    wait_for_event(fixture, "of the thaw", before, |event| {
        freeze_status(event) == "thawed"
    })
    .await?;
    let answer = fixture
        .commands
        .exec(vmi, "sh", &["-c", "echo x >/mnt/data/x"])
        .await?;
    ensure!(answer.exit_code == 0, "{answer:?}");
    Ok(())
}

pub(super) async fn check_safety_thaw_without_daemon(
    fixture: &LauncherFixture,
    vmi: &Vmi,
) -> Result<()> {
    let before = fixture.handler.events().len();
    freeze(fixture, vmi, 1).await?;
    kill_daemon(fixture)?;
    wait_for_event(fixture, "of the freeze", before, |event| {
        freeze_status(event) == "frozen"
    })
    .await?;
    let frozen = fixture.handler.events().len();
    wait_for_event(fixture, "of the safety thaw", frozen, |event| {
        freeze_status(event) == "thawed"
    })
    .await?;
    fixture.wait_for_agent(vmi).await?;
    let answer = fixture
        .commands
        .exec(vmi, "sh", &["-c", "echo y >/mnt/data/y"])
        .await?;
    ensure!(answer.exit_code == 0, "{answer:?}");
    Ok(())
}

/// A frozen guest could power off neither by its agent, which refuses it, nor by the power button, since it waits for
/// its file systems.
pub(super) async fn shut_down_frozen_guest(mut fixture: LauncherFixture, vmi: &Vmi) -> Result<()> {
    let before = fixture.handler.events().len();
    freeze(&fixture, vmi, 300).await?;
    fixture.commands.shutdown(vmi).await?.accepted()?;
    fixture
        .handler
        .wait_for_state("Shutoff/Shutdown", before, BOOT_TIMEOUT)
        .await?;
    fixture.commands.delete(vmi).await?.accepted()?;
    fixture.expect_exit_code(0).await
}
