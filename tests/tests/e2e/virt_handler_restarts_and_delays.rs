//! virt-handler deletes a VM, has a slow API server, or restarts while the VM starts, runs and stops.

use std::time::Duration;

use anyhow::{Context, Result};
use tests::emulated_virt_handler::{Decision, Phase, Settings, Step, StepEntry};
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// Settings with a short resync period. KubeVirt's is five minutes, too long for a test.
const SHORT_RESYNC: Settings = Settings {
    api_delay: Duration::ZERO,
    resync: Duration::from_secs(3),
};

fn calls<'a>(
    steps: &'a [StepEntry],
    expected_method: &'a str,
) -> impl Iterator<Item = &'a StepEntry> {
    let is_call = move |entry: &&StepEntry| matches!(&entry.step, Step::Called { method, .. } if *method == expected_method);
    steps.iter().filter(is_call)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_vmi_shuts_down_and_has_succeeded() -> Result<()> {
    let vmi = Vmi::new("deleted", LauncherUser::Nonroot).grace_period(30);
    let mut fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    fixture.handler.delete();
    fixture.expect_end_in_phase(Phase::Succeeded).await?;
    assert!(fixture.pod.console(&vmi).has_reported("powering off"));
    let steps = fixture.handler.steps();
    let history = fixture.handler.history();
    assert_eq!(calls(&steps, "KillVirtualMachine").count(), 0, "{history}");
    // A second call follows the final phase if the launcher still runs.
    let deletes = calls(&steps, "DeleteVirtualMachine").count();
    assert!((1..=2).contains(&deletes), "{history}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_api_server_does_not_affect_a_start() -> Result<()> {
    let vmi = Vmi::new("slow", LauncherUser::Nonroot);
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    let slow = Settings {
        api_delay: Duration::from_millis(20),
        ..Settings::default()
    };
    fixture.handler.create_with(&vmi, slow).await;
    fixture.handler.wait_for_running(BOOT_TIMEOUT).await?;
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_starts_while_virt_handler_restarts() -> Result<()> {
    let vmi = Vmi::new("restart-start", LauncherUser::Nonroot);
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.handler.create_with(&vmi, SHORT_RESYNC).await;
    // The domain is defined and not started yet: the restart cancels the call that starts it.
    fixture
        .handler
        .wait_for_state("Shutoff/Unknown", 0, BOOT_TIMEOUT)
        .await?;
    fixture.handler.restart().await;
    fixture
        .handler
        .wait_for_phase(Phase::Running, BOOT_TIMEOUT)
        .await?;
    // The queued notifications arrive in their order, beginning with the domain that is shut off.
    fixture
        .handler
        .wait_for_state("Running/Unknown", 0, BOOT_TIMEOUT)
        .await?;
    fixture
        .pod
        .console(&vmi)
        .wait_for_boots(1, BOOT_TIMEOUT)
        .await?;
    assert!(fixture.pod.qemu().is_some());
    fixture.handler.check()?;
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_virt_handler_receives_all_notifications() -> Result<()> {
    let vmi = Vmi::new("restart-run", LauncherUser::Nonroot);
    let mut fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    let qemu = fixture.pod.qemu().context("QEMU")?.pid;
    fixture.handler.restart().await;
    let before = fixture.handler.events().len();
    fixture.commands.pause(&vmi).await?.accepted()?;
    fixture
        .handler
        .wait_for_state("Paused/User", before, EVENT_TIMEOUT)
        .await?;
    fixture.commands.unpause(&vmi).await?.accepted()?;
    fixture
        .handler
        .wait_for_state("Running/Unknown", before, EVENT_TIMEOUT)
        .await?;
    // The VM ends while no virt-handler runs.
    fixture.handler.stop().await;
    fixture.pod.qemu().context("QEMU")?.kill()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    fixture.handler.start().await;
    assert_eq!(fixture.handler.phase(), Some(Phase::Running), "pid {qemu}");
    fixture.expect_end_in_phase(Phase::Failed).await?;
    let crashed = "MODIFIED Shutoff/Crashed".to_owned();
    let history = fixture.handler.history();
    let has_decided = fixture.handler.steps().into_iter().any(|entry| {
        matches!(entry.step, Step::Decided { decision: Decision::Delete, domain, .. } if domain == "Shutoff/Crashed")
    });
    assert!(
        has_decided || fixture.handler.states().contains(&crashed),
        "{history}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_stops_while_virt_handler_restarts() -> Result<()> {
    let vmi = Vmi::new("restart-stop", LauncherUser::Nonroot).grace_period(30);
    let mut fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    let before = fixture.handler.events().len();
    fixture.handler.delete();
    let is_shutting_down = |event: &tests::emulated_virt_handler::Event| {
        event.metadata()["GracePeriod"]["DeletionTimestamp"].is_string()
    };
    fixture
        .handler
        .wait_for("DeletionTimestamp", before, EVENT_TIMEOUT, is_shutting_down)
        .await?;
    fixture.handler.restart().await;
    fixture.expect_end_in_phase(Phase::Succeeded).await?;
    assert!(fixture.pod.console(&vmi).has_reported("powering off"));
    Ok(())
}
