//! SIGTERM to the launcher, and the grace period.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use tests::emulated_virt_handler::Phase;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_without_virt_handler_shuts_the_guest_down() -> Result<()> {
    let vmi = Vmi::new("sigterm", LauncherUser::Root);
    let mut fixture = LauncherFixture::start(LauncherUser::Root, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture
        .pod
        .console(&vmi)
        .wait_for_boots(1, BOOT_TIMEOUT)
        .await?;
    let before = fixture.handler.events().len();
    let begin = Instant::now();
    fixture.pod.signal(Signal::TERM)?;
    let is_marked = |event: &tests::emulated_virt_handler::Event| {
        event.metadata()["GracePeriod"]["MarkedForGracefulShutdown"].as_bool() == Some(true)
    };
    fixture
        .handler
        .wait_for(
            "MarkedForGracefulShutdown",
            before,
            EVENT_TIMEOUT,
            is_marked,
        )
        .await?;
    fixture.expect_exit_code(0).await?;
    assert!(
        fixture.pod.console(&vmi).has_reported("powering off"),
        "{}",
        fixture.pod.console(&vmi).text()
    );
    assert!(
        begin.elapsed() < Duration::from_secs(19),
        "not by the end of the grace period: {:?}",
        begin.elapsed()
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
    let begin = Instant::now();
    fixture.pod.signal(Signal::TERM)?;
    fixture.pod.wait_for_exit(Duration::from_secs(10)).await?;
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{:?}",
        begin.elapsed()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_ignores_shutdown_is_killed_after_the_grace_period() -> Result<()> {
    // Without a kernel only the firmware runs, which ignores the power button.
    let vmi = Vmi::new("nobutton", LauncherUser::Nonroot).edit(|vmi| {
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
