//! virtlogd is killed before a start, and while a VM runs.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture};
use tests::pod::{LauncherUser, Process};
use tests::vmi_builder::Vmi;

fn virtlogds(fixture: &LauncherFixture) -> Vec<Process> {
    let mut processes = fixture.pod.processes();
    processes.retain(|process| process.name == "virtlogd");
    processes
}

fn kill_virtlogd(fixture: &LauncherFixture) -> Result<()> {
    let [only] = virtlogds(fixture).try_into().ok().context("one virtlogd")?;
    only.kill()
}

/// The number of log lines of a level about virtlogd, including libvirt's errors.
fn count_log_lines(fixture: &LauncherFixture, level: &str) -> usize {
    let is_about_virtlogd =
        |entry: &Value| entry.to_string().contains("virtlogd") && entry["level"] == level;
    fixture
        .pod
        .log_entries()
        .iter()
        .filter(|entry| is_about_virtlogd(entry))
        .count()
}

async fn check_killed_virtlogd(user: LauncherUser) -> Result<()> {
    let vmi = Vmi::new("logs", user);
    let mut fixture = LauncherFixture::start(user, &vmi).await?;
    kill_virtlogd(&fixture)?;
    fixture.boot_and_read_reports(&vmi).await?;
    assert_eq!(virtlogds(&fixture).len(), 1);
    let is_logged = async || (count_log_lines(&fixture, "info") >= 1).then_some(());
    tests::wait_until("virtlogd is back", EVENT_TIMEOUT, is_logged).await?;

    kill_virtlogd(&fixture)?;
    tests::wait_until("one virtlogd", EVENT_TIMEOUT, async || {
        (virtlogds(&fixture).len() == 1).then_some(())
    })
    .await?;
    let is_continued = async || {
        fixture
            .pod
            .log()
            .contains("continues the serial console's log")
            .then_some(())
    };
    tests::wait_until("the log's new reader", EVENT_TIMEOUT, is_continued).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        count_log_lines(&fixture, "error"),
        0,
        "{}",
        fixture.pod.log()
    );
    assert_eq!(
        count_log_lines(&fixture, "warning"),
        2,
        "{}",
        fixture.pod.log()
    );
    assert_eq!(virtlogds(&fixture).len(), 1);

    // Console output after the restart is also in the log file.
    fixture.commands.shutdown(&vmi).await?.accepted()?;
    let is_reported = async || {
        fixture
            .pod
            .console(&vmi)
            .has_reported("powering off")
            .then_some(())
    };
    tests::wait_until("the guest's last line", BOOT_TIMEOUT, is_reported).await?;
    fixture
        .handler
        .wait_for_state("Shutoff/Shutdown", 0, BOOT_TIMEOUT)
        .await?;
    let _ = fixture.commands.delete(&vmi).await;
    fixture.expect_exit_code(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_virtlogd_delays_a_start_and_loses_no_log_as_uid_107() -> Result<()> {
    check_killed_virtlogd(LauncherUser::Nonroot).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_virtlogd_delays_a_start_and_loses_no_log_as_root() -> Result<()> {
    check_killed_virtlogd(LauncherUser::Root).await
}
