//! Processes that are killed, missing, or asked to end: QEMU, libvirt's daemon, the launcher.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use tests::launcher_fixture::{BOOT, EVENT, LauncherFixture, PreparedPod, READY};
use tests::pod::LauncherUser;
use tests::virt_handler::Phase;
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
        .wait_for_state("Shutoff/Crashed", before, EVENT)
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
    let restarted = async || fixture.pod.daemon().filter(|now| now.pid != daemon.pid);
    tests::until("a new daemon", BOOT, restarted).await?;
    let paused = async || {
        fixture
            .commands
            .pause(&vmi)
            .await
            .is_ok_and(|answer| answer.success)
            .then_some(())
    };
    tests::until("a pause through the new daemon", BOOT, paused).await?;
    fixture
        .handler
        .wait_for_state("Paused/User", before, EVENT)
        .await?;
    fixture.commands.unpause(&vmi).await?.ok()?;
    assert_eq!(fixture.pod.qemu().map(|now| now.pid), Some(qemu.pid));
    fixture.wait_for_agent(&vmi).await?;
    let lost = fixture.handler.states()[before..]
        .iter()
        .any(|state| state.contains("Shutoff") || state.contains("NoState"));
    assert!(!lost, "{}", fixture.handler.history());
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_without_virt_handler_shuts_the_guest_down() -> Result<()> {
    let vmi = Vmi::new("sigterm", LauncherUser::Root);
    let mut fixture = LauncherFixture::start(LauncherUser::Root, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.pod.console(&vmi).wait_for_boots(1, BOOT).await?;
    let before = fixture.handler.events().len();
    let asked = Instant::now();
    fixture.pod.signal(Signal::TERM)?;
    let marked = |event: &tests::virt_handler::Event| {
        event.metadata()["GracePeriod"]["MarkedForGracefulShutdown"].as_bool() == Some(true)
    };
    fixture
        .handler
        .wait_for("MarkedForGracefulShutdown", before, EVENT, marked)
        .await?;
    fixture.expect_exit_code(0).await?;
    assert!(
        fixture.pod.console(&vmi).has_reported("powering off"),
        "{}",
        fixture.pod.console(&vmi).text()
    );
    assert!(
        asked.elapsed() < Duration::from_secs(19),
        "not by the end of the grace period: {:?}",
        asked.elapsed()
    );
    assert!(
        fixture
            .handler
            .states()
            .contains(&"MODIFIED Shutoff/Shutdown".to_owned()),
        "{}",
        fixture.handler.history()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_with_no_domain_ends_at_once() -> Result<()> {
    let vmi = Vmi::new("idle", LauncherUser::Nonroot);
    let mut fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    let asked = Instant::now();
    fixture.pod.signal(Signal::TERM)?;
    fixture.pod.wait_for_exit(Duration::from_secs(10)).await?;
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_ignores_shutdown_is_killed_after_the_grace_period() -> Result<()> {
    // Without a kernel only the firmware runs, which ignores the power button.
    let vmi = Vmi::new("deaf", LauncherUser::Nonroot).edit(|vmi| {
        vmi["spec"]["domain"]["firmware"]
            .as_object_mut()
            .unwrap()
            .remove("kernelBoot");
    });
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let mut fixture = prepared
        .start(&vmi, &["--grace-period-seconds", "4"])
        .await?;
    fixture.boot(&vmi).await?;
    let before = fixture.handler.events().len();
    fixture.pod.signal(Signal::TERM)?;
    fixture
        .handler
        .wait_for_state("Shutoff/Destroyed", before, Duration::from_secs(20))
        .await?;
    fixture.expect_end_in_phase(Phase::Failed).await
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_contains_the_name_of_a_missing_libvirt_daemon() -> Result<()> {
    let vmi = Vmi::new("nodaemon", LauncherUser::Nonroot);
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    for program in ["/usr/sbin/libvirtd", "/usr/sbin/virtqemud"] {
        prepared.pod.mask_file(Path::new(program))?;
    }
    prepared.pod.start(&vmi, &["--qemu-timeout", "5s"])?;
    let status = prepared.pod.wait_for_exit(READY).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    let log = prepared.pod.log();
    assert!(
        log.contains("virtqemud") && log.contains("libvirtd"),
        "{log}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_contains_the_name_of_a_missing_qemu() -> Result<()> {
    let vmi = Vmi::new("noqemu", LauncherUser::Nonroot);
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared
        .pod
        .mask_file(Path::new("/usr/bin/qemu-system-x86_64"))?;
    prepared.pod.start(&vmi, &["--qemu-timeout", "5s"])?;
    let status = prepared.pod.wait_for_exit(READY).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    let log = prepared.pod.log();
    assert!(
        log.contains("no QEMU") && log.contains("qemu-system-x86"),
        "{log}"
    );
    Ok(())
}
