//! Something dies, is missing, or is told to end.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use tests::pod::User;
use tests::scenario::{BOOT, EVENT, READY, Scene, Stage};
use tests::vmi::Vmi;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_qemu_is_a_crash_and_ends_the_launcher() -> Result<()> {
    let vmi = Vmi::new("crash", User::Nonroot);
    let mut scene = Scene::open(User::Nonroot, &vmi).await?;
    scene.boot(&vmi).await?;
    let before = scene.handler.events().len();
    scene.pod.qemu().unwrap().kill()?;
    scene
        .handler
        .wait_for_state("Shutoff/Crashed", before, EVENT)
        .await?;
    let _ = scene.commands.delete(&vmi).await;
    scene.ends_with(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemon_comes_back_and_the_vm_never_notices() -> Result<()> {
    let vmi = Vmi::new("daemon", User::Nonroot);
    let scene = Scene::open(User::Nonroot, &vmi).await?;
    scene.boot_to_ready(&vmi).await?;
    let (qemu, daemon) = (scene.pod.qemu().unwrap(), scene.pod.daemon().unwrap());
    let before = scene.handler.events().len();
    daemon.kill()?;
    let restarted = async || scene.pod.daemon().filter(|now| now.pid != daemon.pid);
    tests::until("a new daemon", BOOT, restarted).await?;
    let paused = async || {
        scene
            .commands
            .pause(&vmi)
            .await
            .is_ok_and(|answer| answer.success)
            .then_some(())
    };
    tests::until("a pause through the new daemon", BOOT, paused).await?;
    scene
        .handler
        .wait_for_state("Paused/User", before, EVENT)
        .await?;
    scene.commands.unpause(&vmi).await?.ok()?;
    assert_eq!(scene.pod.qemu().map(|now| now.pid), Some(qemu.pid));
    scene.agent(&vmi).await?;
    let lost = scene.handler.states()[before..]
        .iter()
        .any(|state| state.contains("Shutoff") || state.contains("NoState"));
    assert!(!lost, "{}", scene.handler.history());
    scene.close(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_without_virt_handler_asks_the_guest_and_ends() -> Result<()> {
    let vmi = Vmi::new("sigterm", User::Root);
    let mut scene = Scene::open(User::Root, &vmi).await?;
    scene.boot_to_ready(&vmi).await?;
    let before = scene.handler.events().len();
    let asked = Instant::now();
    scene.pod.signal(Signal::TERM)?;
    let marked = |event: &tests::virt_handler::Event| {
        event.metadata()["GracePeriod"]["MarkedForGracefulShutdown"].as_bool() == Some(true)
    };
    scene
        .handler
        .wait_for("MarkedForGracefulShutdown", before, EVENT, marked)
        .await?;
    scene.ends_with(0).await?;
    assert!(
        scene.pod.console(&vmi).told("powering off"),
        "{}",
        scene.pod.console(&vmi).text()
    );
    assert!(
        asked.elapsed() < Duration::from_secs(19),
        "not by the end of the grace period: {:?}",
        asked.elapsed()
    );
    assert!(
        scene
            .handler
            .states()
            .contains(&"MODIFIED Shutoff/Shutdown".to_owned()),
        "{}",
        scene.handler.history()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_with_no_domain_ends_at_once() -> Result<()> {
    let vmi = Vmi::new("idle", User::Nonroot);
    let mut scene = Scene::open(User::Nonroot, &vmi).await?;
    let asked = Instant::now();
    scene.pod.signal(Signal::TERM)?;
    scene.pod.ended(Duration::from_secs(10)).await?;
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_does_not_listen_is_killed_when_the_grace_period_ends() -> Result<()> {
    // Without a kernel the firmware idles, deaf to the power button.
    let vmi = Vmi::new("deaf", User::Nonroot).edit(|vmi| {
        vmi["spec"]["domain"]["firmware"]
            .as_object_mut()
            .unwrap()
            .remove("kernelBoot");
    });
    let stage = Stage::set(User::Nonroot)?;
    let mut scene = stage.start(&vmi, &["--grace-period-seconds", "4"]).await?;
    scene.boot(&vmi).await?;
    let before = scene.handler.events().len();
    scene.pod.signal(Signal::TERM)?;
    scene
        .handler
        .wait_for_state("Shutoff/Destroyed", before, Duration::from_secs(20))
        .await?;
    scene.ends_with(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_virt_handler_command_ever_ends_the_launcher_with_an_error() -> Result<()> {
    let vmi = Vmi::new("lonely", User::Nonroot);
    let stage = Stage::set(User::Nonroot)?;
    let mut scene = stage.start(&vmi, &["--qemu-timeout", "3s"]).await?;
    let status = scene.pod.ended(Duration::from_secs(15)).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_daemon_on_the_machine_is_an_error_that_says_so() -> Result<()> {
    let vmi = Vmi::new("nodaemon", User::Nonroot);
    let mut stage = Stage::set(User::Nonroot)?;
    for program in ["/usr/sbin/libvirtd", "/usr/sbin/virtqemud"] {
        stage.pod.mask(Path::new(program))?;
    }
    stage.pod.start(&vmi, &["--qemu-timeout", "5s"])?;
    let status = stage.pod.ended(READY).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    let log = stage.pod.log();
    assert!(
        log.contains("virtqemud") && log.contains("libvirtd"),
        "{log}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_qemu_on_the_machine_is_an_error_that_says_so() -> Result<()> {
    let vmi = Vmi::new("noqemu", User::Nonroot);
    let mut stage = Stage::set(User::Nonroot)?;
    stage.pod.mask(Path::new("/usr/bin/qemu-system-x86_64"))?;
    stage.pod.start(&vmi, &["--qemu-timeout", "5s"])?;
    let status = stage.pod.ended(READY).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    let log = stage.pod.log();
    assert!(
        log.contains("no QEMU") && log.contains("qemu-system-x86"),
        "{log}"
    );
    Ok(())
}
