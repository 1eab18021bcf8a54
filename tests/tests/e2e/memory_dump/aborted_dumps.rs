//! SIGTERM and a kill abort a memory dump.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, chown};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use super::{DUMP_TIMEOUT, make_directory, record, start_dump};

/// Starts a dump that never ends, because it is written to a pipe that is not read.
async fn start_endless_dump(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    user: LauncherUser,
) -> Result<fs::File> {
    let directory = make_directory(fixture, user)?;
    let pipe = directory.join("pipe");
    let status = std::process::Command::new("mkfifo").arg(&pipe).status()?;
    ensure!(status.success());
    chown(&pipe, Some(user.id()), Some(user.id()))?;
    let reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(&pipe)?;
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, "pipe").await?;
    fixture
        .handler
        .wait_for_state("Paused/Dump", before, EVENT_TIMEOUT)
        .await?;
    Ok(reader)
}

/// Checks that the last record is a failed dump with this reason, and was notified before the domain's deletion.
fn assert_aborted(fixture: &LauncherFixture, reason: &str) -> Result<()> {
    let events = fixture.handler.events();
    let failed = events
        .iter()
        .rposition(|event| record(event)["Failed"] == true)
        .with_context(|| fixture.handler.history())?;
    let text = &record(&events[failed])["FailureReason"];
    ensure!(*text == format!("Domain memory dump failed: aborted, since {reason}"));
    let last = events
        .iter()
        .rposition(|event| !event.event_type().is_empty());
    let deletion = events
        .iter()
        .position(|event| event.state() == "NoState/NonExistent");
    ensure!(
        deletion.is_none_or(|deletion| failed < deletion) && last >= Some(failed),
        "{}",
        fixture.handler.history()
    );
    Ok(())
}

/// Without a controller, the launcher itself resumes the guest that the dump has paused, so that it powers off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_aborts_the_dump_and_the_guest_powers_off() -> Result<()> {
    let user = LauncherUser::Nonroot;
    let vmi = Vmi::new("dump-signal", user).grace_period(30);
    let mut fixture = LauncherFixture::start(user, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture
        .pod
        .console(&vmi)
        .wait_for_boots(1, BOOT_TIMEOUT)
        .await?;
    let _reader = start_endless_dump(&fixture, &vmi, user).await?;
    start_dump(&fixture, &vmi, "pipe").await?;
    ensure!(fixture.commands.domain().await?["Status"]["Reason"] == "Dump");
    fixture.pod.signal(Signal::TERM)?;
    fixture
        .handler
        .wait_for_state("Shutoff/Shutdown", 0, DUMP_TIMEOUT)
        .await?;
    fixture.expect_exit_code(0).await?;
    assert_aborted(&fixture, "the virtual machine is being shut down")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_aborts_the_dump() -> Result<()> {
    let user = LauncherUser::Root;
    let vmi = Vmi::new("dump-kill", user);
    let mut fixture = LauncherFixture::start(user, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    let _reader = start_endless_dump(&fixture, &vmi, user).await?;
    fixture.commands.kill(&vmi).await?.accepted()?;
    fixture.commands.delete(&vmi).await?.accepted()?;
    fixture.expect_exit_code(0).await?;
    assert_aborted(&fixture, "the virtual machine is being ended")
}
