//! Memory dumps: notifications, the dump file and failures.

mod aborted_dumps;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use proto::cmd::v1 as cmd;
use serde_json::Value;
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::LauncherFixture;
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use crate::distinct;

/// The mount point of the dump's volume.
const DUMP_DIRECTORY: &str = "/var/run/kubevirt/hotplug-disks/dump";
/// The guest's memory in bytes.
const GUEST_MEMORY: u64 = 192 << 20;
/// How long a dump of 192 MiB may take on a busy machine.
const DUMP_TIMEOUT: Duration = Duration::from_secs(60);

fn make_directory(fixture: &LauncherFixture, user: LauncherUser) -> Result<PathBuf> {
    let directory = fixture.pod.path(DUMP_DIRECTORY);
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
    let answer = dump(fixture, vmi, &format!("{DUMP_DIRECTORY}/{name}")).await?;
    ensure!(answer.success && answer.message.is_empty(), "{answer:?}");
    Ok(())
}

fn record(event: &Event) -> &Value {
    &event.metadata()["MemoryDump"]
}

/// The dump's state in each event, without repetitions, like `Paused/Dump a.memory.dump begun`.
fn dump_states(events: &[Event]) -> Vec<String> {
    let progress = |event: &Event| {
        let record = record(event);
        let result = match (record["Completed"].as_bool(), record["Failed"].as_bool()) {
            (Some(false), Some(false)) => "begun",
            (Some(true), Some(false)) => "completed",
            (Some(true), Some(true)) => "failed",
            _ => "unknown",
        };
        let name = record["FileName"].as_str().unwrap_or_default();
        format!("{} {name} {result}", event.state())
    };
    distinct(events.iter().map(progress).collect())
}

/// Waits for a notification of the end of the dump with this name, among the events from number `after` on.
async fn wait_for_end(fixture: &LauncherFixture, name: &str, after: usize) -> Result<Event> {
    let is_end = |event: &Event| {
        let record = record(event);
        record["FileName"] == name && record["Completed"] == true
    };
    fixture
        .handler
        .wait_for("the end of the memory dump", after, DUMP_TIMEOUT, is_end)
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

/// A dump that completes: notifications and file. A repeated request for the same file does nothing.
async fn check_complete_dump(fixture: &LauncherFixture, vmi: &Vmi, directory: &Path) -> Result<()> {
    const NAME: &str = "dump-vol-20261122-054500.memory.dump";
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, NAME).await?;
    let end = wait_for_end(fixture, NAME, before).await?;
    let history = fixture.handler.history();
    let states = dump_states(&fixture.handler.events()[before..]);
    let expected = [
        format!("Running/Unknown {NAME} begun"),
        format!("Paused/Dump {NAME} begun"),
        format!("Running/Unknown {NAME} begun"),
        format!("Running/Unknown {NAME} completed"),
    ];
    // One notification may report both the resumption and the end.
    let without_resumption = [&expected[0], &expected[1], &expected[3]];
    ensure!(
        states == expected || states.iter().eq(without_resumption),
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
    check_core_file(&directory.join(NAME))?;
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, NAME).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Notifications about the guest agent may arrive in this time.
    let states = dump_states(&fixture.handler.events()[before..]);
    let unchanged = states.iter().all(|progress| *progress == expected[3]);
    ensure!(unchanged, "{states:?}");
    Ok(())
}

/// Checks that the file is an ELF core (`ET_CORE`) which is larger than the guest's memory.
fn check_core_file(path: &Path) -> Result<()> {
    const ET_CORE: u8 = 4;
    let mut head = [0; 18];
    let file = fs::File::open(path).with_context(|| format!("{}", path.display()))?;
    file.read_exact_at(&mut head, 0)?;
    ensure!(
        head.starts_with(b"\x7fELF") && head[16] == ET_CORE,
        "{head:?}"
    );
    let size = file.metadata()?.len();
    ensure!(size > GUEST_MEMORY, "{size} bytes");
    Ok(())
}

async fn check_replacement(fixture: &LauncherFixture, vmi: &Vmi, directory: &Path) -> Result<()> {
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, "second.memory.dump").await?;
    wait_for_end(fixture, "second.memory.dump", before).await?;
    let names: Vec<_> = fs::read_dir(directory)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<_>>()?;
    ensure!(names == ["second.memory.dump"], "{names:?}");
    Ok(())
}

/// The dump fails before the guest is paused.
async fn check_read_only_directory(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    directory: &Path,
) -> Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o555))?;
    let before = fixture.handler.events().len();
    start_dump(fixture, vmi, "third.memory.dump").await?;
    let end = wait_for_end(fixture, "third.memory.dump", before).await?;
    let reason = record(&end)["FailureReason"].as_str().unwrap_or_default();
    ensure!(
        reason.starts_with("Domain memory dump failed: "),
        "{reason}"
    );
    ensure!(
        reason.contains(DUMP_DIRECTORY) && reason.contains("denied"),
        "{reason}"
    );
    // The notification of the previous dump's end may arrive late.
    let mut states = dump_states(&fixture.handler.events()[before..]);
    states.retain(|progress| progress.contains("third"));
    let expected =
        ["begun", "failed"].map(|result| format!("Running/Unknown third.memory.dump {result}"));
    ensure!(states == expected, "{states:?}");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    ensure!(directory.join("second.memory.dump").exists());
    Ok(())
}

async fn check_missing_directory(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let before = fixture.handler.events().len();
    let answer = dump(fixture, vmi, "/nonexistent/x.dump").await?;
    ensure!(answer.success, "{answer:?}");
    let end = wait_for_end(fixture, "x.dump", before).await?;
    ensure!(record(&end)["Failed"] == true, "{}", record(&end));
    Ok(())
}
