//! QEMU or libvirt's daemon is killed, or the launcher receives no command.

use std::time::Duration;

use anyhow::Result;
use tests::emulated_virt_handler::Phase;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_qemu_is_a_crash_and_ends_the_launcher() -> Result<()> {
    let vmi = Vmi::new("crash", LauncherUser::Nonroot);
    let mut fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot(&vmi).await?;
    let before = fixture.handler.events().len();
    fixture.pod.qemu().unwrap().kill()?;
    fixture
        .handler
        .wait_for_state("Shutoff/Crashed", before, EVENT_TIMEOUT)
        .await?;
    fixture.expect_end_in_phase(Phase::Failed).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemon_is_restarted_and_the_vm_runs_on() -> Result<()> {
    let vmi = Vmi::new("daemon", LauncherUser::Nonroot);
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    let (qemu, daemon) = (fixture.pod.qemu().unwrap(), fixture.pod.daemon().unwrap());
    let before = fixture.handler.events().len();
    daemon.kill()?;
    let is_restarted = async || fixture.pod.daemon().filter(|now| now.pid != daemon.pid);
    tests::wait_until("a new daemon", BOOT_TIMEOUT, is_restarted).await?;
    let is_paused = async || {
        fixture
            .commands
            .pause(&vmi)
            .await
            .is_ok_and(|answer| answer.success)
            .then_some(())
    };
    tests::wait_until("a pause through the new daemon", BOOT_TIMEOUT, is_paused).await?;
    fixture
        .handler
        .wait_for_state("Paused/User", before, EVENT_TIMEOUT)
        .await?;
    fixture.commands.unpause(&vmi).await?.accepted()?;
    assert_eq!(fixture.pod.qemu().map(|now| now.pid), Some(qemu.pid));
    fixture.wait_for_agent(&vmi).await?;
    let lost = fixture.handler.states()[before..]
        .iter()
        .any(|state| state.contains("Shutoff") || state.contains("NoState"));
    assert!(!lost, "{}", fixture.handler.history());
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_command_the_launcher_ends_with_an_error() -> Result<()> {
    let vmi = Vmi::new("lonely", LauncherUser::Nonroot);
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let mut fixture = prepared.start(&vmi, &["--qemu-timeout", "3s"]).await?;
    let status = fixture.pod.wait_for_exit(Duration::from_secs(15)).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    Ok(())
}
