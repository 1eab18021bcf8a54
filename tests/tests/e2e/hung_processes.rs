//! A process that hangs (QEMU, libvirt's daemon, the guest agent) does not delay other calls.
#![allow(
    clippy::print_stdout,
    reason = "shown with --nocapture: how long it took"
)]

use std::time::{Duration, Instant};

use anyhow::Result;
use proto::cmd::v1::EmptyRequest;
use rustix::process::{Signal, kill_process};
use tests::emulated_virt_handler::{Commands, Event};
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// The maximum duration of a query: virt-handler waits 5 s, but the test may run on a busy machine.
const QUERY_LIMIT: Duration = Duration::from_secs(15);

/// How long QEMU at least has to write back its caches before it gets SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(11);
/// How long virt-handler waits for the answer to a command.
const VIRT_HANDLER_WAITS: Duration = Duration::from_secs(20);

/// Runs three queries at once. Returns the time until all were answered, also with errors.
async fn slowest_query(commands: &Commands) -> Duration {
    let begin = Instant::now();
    let (mut domain, mut stats, mut version) = (
        commands.raw.clone(),
        commands.raw.clone(),
        commands.raw.clone(),
    );
    let _ = tokio::join!(
        domain.get_domain(EmptyRequest {}),
        stats.get_domain_stats(EmptyRequest {}),
        version.get_qemu_version(EmptyRequest {}),
    );
    begin.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_qemu_is_killed_while_statistics_are_polled() -> Result<()> {
    let vmi = Vmi::new("stopped", LauncherUser::Nonroot);
    let mut fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot(&vmi).await?;
    let before = fixture.handler.events().len();
    kill_process(fixture.pod.qemu().unwrap().pid, Signal::STOP)?;
    let polls = (0..8).map(|_| {
        let commands = fixture.commands.clone();
        tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            for _ in 0..2 {
                slowest = slowest.max(slowest_query(&commands).await);
            }
            slowest
        })
    });
    let polls: Vec<_> = polls.collect();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let begin = Instant::now();
    fixture.commands.kill(&vmi).await?.accepted()?;
    let took = begin.elapsed();
    println!("killed within {took:?}");
    // QEMU may be writing until then.
    assert!(took >= KILL_AFTER, "{took:?}");
    assert!(took < VIRT_HANDLER_WAITS, "{took:?}");
    assert!(
        fixture.pod.qemu().is_none(),
        "success means that it is gone"
    );
    fixture
        .handler
        .wait_for_state("Shutoff/Destroyed", before, EVENT_TIMEOUT)
        .await?;
    let is_told = |event: &Event| event.kubernetes_reason() == Some("QemuKilled");
    fixture
        .handler
        .wait_for("QemuKilled", before, EVENT_TIMEOUT, is_told)
        .await?;
    for poll in polls {
        let slowest = poll.await?;
        println!("slowest query {slowest:?}");
        assert!(slowest < QUERY_LIMIT, "{slowest:?}");
    }
    fixture.commands.delete(&vmi).await?.accepted()?;
    fixture.expect_exit_code(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_stopped_daemon_queries_are_answered_and_kill_ends_qemu() -> Result<()> {
    let vmi = Vmi::new("hung", LauncherUser::Nonroot);
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot(&vmi).await?;
    let daemon = fixture.pod.daemon().unwrap();
    kill_process(daemon.pid, Signal::STOP)?;
    let slowest = slowest_query(&fixture.commands).await;
    println!("slowest query {slowest:?}");
    assert!(slowest < QUERY_LIMIT, "{slowest:?}");
    let begin = Instant::now();
    fixture.commands.kill(&vmi).await?.accepted()?;
    println!("killed within {:?}", begin.elapsed());
    assert!(
        fixture.pod.qemu().is_none(),
        "success means that it is gone"
    );
    kill_process(daemon.pid, Signal::CONT)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_after_the_daemons_death_waits_for_its_restart() -> Result<()> {
    let vmi = Vmi::new("restarted", LauncherUser::Nonroot);
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot(&vmi).await?;
    for (number, after) in [0, 100, 600].into_iter().enumerate() {
        let daemon = fixture.pod.daemon().unwrap();
        daemon.kill()?;
        tokio::time::sleep(Duration::from_millis(after)).await;
        match number % 2 {
            0 => fixture.commands.pause(&vmi).await?.accepted()?,
            _ => fixture.commands.unpause(&vmi).await?.accepted()?,
        }
        let is_restarted = async || fixture.pod.daemon().filter(|now| now.pid != daemon.pid);
        tests::wait_until("a new daemon", BOOT_TIMEOUT, is_restarted).await?;
    }
    fixture.end_vm(&vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_uses_the_power_button_if_the_agent_hangs() -> Result<()> {
    let vmi = Vmi::new("silentagent", LauncherUser::Nonroot);
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    let before = fixture.handler.events().len();
    // The agent is stopped after it has answered this command.
    let stop = [
        "-c",
        "(sleep 1; kill -STOP $(busybox pidof qemu-ga)) >/dev/null 2>&1 &",
    ];
    fixture.commands.exec(&vmi, "/bin/sh", &stop).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let begin = Instant::now();
    let (shutdown, slowest) = tokio::join!(
        fixture.commands.shutdown(&vmi),
        slowest_query(&fixture.commands)
    );
    shutdown?.accepted()?;
    println!(
        "asked within {:?}, slowest query {slowest:?}",
        begin.elapsed()
    );
    assert!(slowest < QUERY_LIMIT, "{slowest:?}");
    fixture
        .handler
        .wait_for_state("Shutoff/Shutdown", before, BOOT_TIMEOUT)
        .await?;
    let mut fixture = fixture;
    fixture.commands.delete(&vmi).await?.accepted()?;
    fixture.expect_exit_code(0).await
}
