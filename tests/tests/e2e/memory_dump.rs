//! The memory dump: its notifications, the dump file, and early ends.

use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use proto::cmd::v1 as cmd;
use rustix::process::Signal;
use serde_json::Value;
use tests::launcher_fixture::{BOOT, EVENT, LauncherFixture};
use tests::pod::LauncherUser;
use tests::virt_handler::Event;
use tests::vmi_builder::Vmi;

use crate::distinct;

/// The mount point of the dump's volume.
const DIRECTORY: &str = "/var/run/kubevirt/hotplug-disks/dump";
const MEMORY: u64 = 192 << 20;
/// 192 MiB are written within a second, on a machine that does nothing else.
const DUMP: Duration = Duration::from_secs(60);

fn make_directory(fixture: &LauncherFixture, user: LauncherUser) -> Result<PathBuf> {
    let directory = fixture.pod.path(DIRECTORY);
    fs::create_dir(&directory)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
    chown(&directory, Some(user.id()), Some(user.id()))?;
    Ok(directory)
}

async fn dump(fixture: &LauncherFixture, vmi: &Vmi, path: &str) -> Result<cmd::Response> {
    let request = cmd::MemoryDumpRequest {
        vmi: Some(cmd::Vmi {
            vmi_json: vmi.json(),
        }),
        dump_path: path.to_owned(),
    };
    let mut client = fixture.commands.raw.clone();
    Ok(client
        .virtual_machine_memory_dump(request)
        .await?
        .into_inner())
}

async fn start_dump(fixture: &LauncherFixture, vmi: &Vmi, name: &str) -> Result<()> {
    let answer = dump(fixture, vmi, &format!("{DIRECTORY}/{name}")).await?;
    ensure!(answer.success && answer.message.is_empty(), "{answer:?}");
    Ok(())
}

fn record(event: &Event) -> &Value {
    &event.metadata()["MemoryDump"]
}

/// The dump's progress, like `Paused/Dump a.memory.dump begun`, one per event.
fn progress_of(events: &[Event]) -> Vec<String> {
    let progress = |event: &Event| {
        let record = record(event);
        let how = match (record["Completed"].as_bool(), record["Failed"].as_bool()) {
            (Some(false), Some(false)) => "begun",
            (Some(true), Some(false)) => "completed",
            (Some(true), Some(true)) => "failed",
            _ => "unknown",
        };
        let name = record["FileName"].as_str().unwrap_or_default();
        format!("{} {name} {how}", event.state())
    };
    distinct(events.iter().map(progress).collect())
}

/// Waits for the end of the dump of that name, after the first `after` events.
async fn ended(fixture: &LauncherFixture, name: &str, after: usize) -> Result<Event> {
    let is_end = |event: &Event| {
        let record = record(event);
        record["FileName"] == name && record["Completed"] == true
    };
    fixture
        .handler
        .wait_for("the end of the memory dump", after, DUMP, is_end)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_dump_completes_and_its_failures_are_reported() -> Result<()> {
    let user = LauncherUser::Nonroot;
    let vmi = Vmi::new("dump", user);
    let fixture = LauncherFixture::start(user, &vmi).await?;
    fixture.boot_and_read_reports(&vmi).await?;
    let directory = make_directory(&fixture, user)?;
    check_complete_dump(&fixture, &vmi, &directory).await?;
    check_replacement(&fixture, &vmi, &directory).await?;
    check_read_only_directory(&fixture, &vmi, &directory).await?;
    check_missing_directory(&fixture, &vmi).await?;
    let answer = dump(&fixture, &vmi, "relative.memory.dump").await?;
    ensure!(
        !answer.success && answer.message.contains("absolute"),
        "{answer:?}"
    );
    fixture.wait_for_agent(&vmi).await?;
    fixture.end_vm(&vmi).await
}

/// A dump that completes: the notifications, the guest that runs on, the complete file.
async fn check_complete_dump(fixture: &LauncherFixture, vmi: &Vmi, directory: &Path) -> Result<()> {
    const NAME: &str = "dump-vol-20261122-054500.memory.dump";
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, NAME).await?;
    let end = ended(fixture, NAME, before).await?;
    let history = fixture.handler.history();
    let states = progress_of(&fixture.handler.events()[before..]);
    let expected = [
        format!("Running/Unknown {NAME} begun"),
        format!("Paused/Dump {NAME} begun"),
        format!("Running/Unknown {NAME} begun"),
        format!("Running/Unknown {NAME} completed"),
    ];
    // One notification may carry both the resumption and the end.
    let together = [&expected[0], &expected[1], &expected[3]];
    ensure!(
        states == expected || states.iter().eq(together),
        "{states:?}\n{history}"
    );
    let record = record(&end);
    for time in ["StartTimestamp", "EndTimestamp"] {
        ensure!(
            record[time]
                .as_str()
                .is_some_and(|time| time.ends_with('Z')),
            "{record}"
        );
    }
    is_core_with_memory(&directory.join(NAME))?;
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, NAME).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    // There may be notifications about the guest agent meanwhile.
    let states = progress_of(&fixture.handler.events()[before..]);
    let unchanged = states.iter().all(|progress| *progress == expected[3]);
    ensure!(unchanged, "{states:?}");
    Ok(())
}

/// An ELF core (`ET_CORE`) that has at least the guest's memory in it.
fn is_core_with_memory(path: &Path) -> Result<()> {
    const ET_CORE: u8 = 4;
    let mut head = [0; 18];
    let file = fs::File::open(path).with_context(|| format!("{}", path.display()))?;
    file.read_exact_at(&mut head, 0)?;
    ensure!(
        head.starts_with(b"\x7fELF") && head[16] == ET_CORE,
        "{head:?}"
    );
    let size = file.metadata()?.len();
    ensure!(size > MEMORY, "{size} bytes");
    Ok(())
}

async fn check_replacement(fixture: &LauncherFixture, vmi: &Vmi, directory: &Path) -> Result<()> {
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, "second.memory.dump").await?;
    ended(fixture, "second.memory.dump", before).await?;
    let names: Vec<_> = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<_>>()?;
    ensure!(names == ["second.memory.dump"], "{names:?}");
    Ok(())
}

/// The guest is not paused for it.
async fn check_read_only_directory(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    directory: &Path,
) -> Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o555))?;
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, "third.memory.dump").await?;
    let end = ended(fixture, "third.memory.dump", before).await?;
    let reason = record(&end)["FailureReason"].as_str().unwrap_or_default();
    ensure!(
        reason.starts_with("Domain memory dump failed: "),
        "{reason}"
    );
    ensure!(
        reason.contains(DIRECTORY) && reason.contains("denied"),
        "{reason}"
    );
    // The notification about the end of the previous dump may be late.
    let mut states = progress_of(&fixture.handler.events()[before..]);
    states.retain(|progress| progress.contains("third"));
    let expected =
        ["begun", "failed"].map(|how| format!("Running/Unknown third.memory.dump {how}"));
    ensure!(states == expected, "{states:?}");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    ensure!(directory.join("second.memory.dump").exists());
    Ok(())
}

async fn check_missing_directory(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let before = fixture.handler.events().len();
    let answer = dump(fixture, vmi, "/nonexistent/x.dump").await?;
    ensure!(answer.success, "{answer:?}");
    let end = ended(fixture, "x.dump", before).await?;
    ensure!(record(&end)["Failed"] == true, "{}", record(&end));
    Ok(())
}

/// A dump that never ends: it is written to a pipe without a reader.
async fn endless_dump(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    user: LauncherUser,
) -> Result<fs::File> {
    let directory = make_directory(fixture, user)?;
    let pipe = directory.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
    ensure!(made.success());
    chown(&pipe, Some(user.id()), Some(user.id()))?;
    let reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(&pipe)?;
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, "pipe").await?;
    fixture
        .handler
        .wait_for_state("Paused/Dump", before, EVENT)
        .await?;
    Ok(reader)
}

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

/// No controller runs here. The launcher itself resumes the guest that the dump paused, and it powers off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_aborts_the_dump_and_the_guest_powers_off() -> Result<()> {
    let user = LauncherUser::Nonroot;
    let vmi = Vmi::new("dump-signal", user).grace_period(30);
    let mut fixture = LauncherFixture::start(user, &vmi).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.pod.console(&vmi).wait_for_boots(1, BOOT).await?;
    let _reader = endless_dump(&fixture, &vmi, user).await?;
    start_dump(&fixture, &vmi, "other.memory.dump").await?;
    ensure!(fixture.commands.domain().await?["Status"]["Reason"] == "Dump");
    fixture.pod.signal(Signal::TERM)?;
    fixture
        .handler
        .wait_for_state("Shutoff/Shutdown", 0, DUMP)
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
    let _reader = endless_dump(&fixture, &vmi, user).await?;
    fixture.commands.kill(&vmi).await?.ok()?;
    fixture.commands.delete(&vmi).await?.ok()?;
    fixture.expect_exit_code(0).await?;
    assert_aborted(&fixture, "the virtual machine is being ended")
}
