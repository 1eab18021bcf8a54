//! Repeated boots and shutdowns, commands and migrations leak no process, file descriptor, mount, file or memory.

mod migrations;
mod process_resources;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tests::launcher_fixture::EVENT;
use tokio::task::JoinHandle;

use self::migrations::Guest;
use self::process_resources::Holdings;
use crate::check_expectation::check_nothing_left;
use crate::command_socket_clients::mixed_commands;
use crate::matrix_runner::save_logs;
use crate::matrix_vocabulary::{Call, Phase, Program, Setup};
use crate::test_vm::{TestVm, ask};

/// The number of boots on libvirt's test driver and on QEMU; each half in one pod's directories.
const SIMULATED: usize = 200;
const EMULATED: usize = 20;
const SIMULATOR: [&str; 2] = ["--libvirt-uri", "test:///default"];
/// Cycles of commands before and between the two measurements of a launcher.
const WARM_UP: usize = 30;
const CYCLES: usize = 200;
/// Concurrent clients and commands per client, before and between the two measurements.
const CLIENTS: usize = 100;
const FEW_COMMANDS: usize = 10;
const MANY_COMMANDS: usize = 100;
/// Until idle connections and threads of pools have ended.
const IDLE: Duration = Duration::from_secs(12);

/// Runs all leak tests. Returns the number of failures.
pub(crate) async fn run(filters: &[String]) -> usize {
    let wanted = |name: &str| {
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let mut failed = 0;
    let mut report = |name: &str, begin: Instant, outcome: Result<String>| match outcome {
        Ok(facts) => println!("ok   leaks: {name}: {facts}; {:?}", begin.elapsed()),
        Err(error) => {
            failed += 1;
            println!("FAIL leaks: {name}: {error:#}");
        }
    };
    for (name, many) in [
        ("commands of one client", false),
        ("commands of 100 clients", true),
    ] {
        if wanted(name) {
            let begin = Instant::now();
            report(name, begin, commands(many).await);
        }
    }
    for (name, count, extra) in [
        ("lives on libvirt's simulator", SIMULATED, &SIMULATOR[..]),
        ("lives on QEMU", EMULATED, &[]),
    ] {
        if wanted(name) {
            let begin = Instant::now();
            let (one, other) = tokio::join!(
                repeated_boots(count / 2, extra),
                repeated_boots(count / 2, extra)
            );
            report(
                name,
                begin,
                one.and_then(|one| Ok(format!("{one}; {}", other?))),
            );
        }
    }
    for (name, guest) in [
        ("migrations of an idle guest", Guest::Idle),
        (
            "migrations of a guest that dirties memory",
            Guest::DirtiesMemory,
        ),
    ] {
        if wanted(name) {
            let begin = Instant::now();
            report(name, begin, migrations::migrations(guest).await);
        }
    }
    let name = "migrations that are cancelled";
    if wanted(name) {
        let begin = Instant::now();
        report(name, begin, migrations::cancelled().await);
    }
    failed
}

/// Boots and shuts down `count` times in the directories of one pod, like a restarted container.
async fn repeated_boots(count: usize, extra: &[&str]) -> Result<String> {
    let mut vm = TestVm::create(Setup::DeafGuest)?;
    let descriptors = own_descriptors()?;
    let mut first = Usage::default();
    for number in 1..=count {
        if let Err(error) = boot_and_shut_down(&mut vm, extra).await {
            save_logs(&vm, &format!("leaks life {number}"), &format!("{error:#}"));
            return Err(error.context(format!("life {number}")));
        }
        check_nothing_left(&vm, true)?;
        ensure!(
            vm.pod.processes().is_empty(),
            "left: {:?}",
            vm.pod.processes()
        );
        if number == 2 {
            first = usage(&vm.pod.path("/run"))?;
        }
    }
    let last = usage(&vm.pod.path("/run"))?;
    ensure!(
        last.files <= first.files,
        "{} files after two lives, {} after {count}",
        first.files,
        last.files
    );
    ensure!(
        last.bytes <= first.bytes + (1 << 20),
        "{} bytes after two lives, {} after {count}",
        first.bytes,
        last.bytes
    );
    // The test's own client and server may close some connections later.
    let now = own_descriptors()?;
    ensure!(
        now <= descriptors + 40,
        "{descriptors} descriptors before, {now} after"
    );
    Ok(format!(
        "{count} lives, {} files and {} bytes left by each last one",
        last.files, last.bytes
    ))
}

async fn boot_and_shut_down(vm: &mut TestVm, extra: &[&str]) -> Result<()> {
    let mark = vm.events().len();
    vm.start(extra)?;
    vm.ready().await?;
    vm.ask(Call::Sync).await?.ok()?;
    vm.wait_for_state("Running/", mark, EVENT).await?;
    // The launcher ends while calls are under way.
    let pollers = [poll(vm).await?, poll(vm).await?];
    vm.ask(Call::Kill).await?.ok()?;
    vm.ask(Call::Delete).await?.ok()?;
    let status = vm.pod.wait_for_exit(Duration::from_secs(20)).await?;
    for poller in pollers {
        poller.abort();
    }
    ensure!(status.success(), "the pod ended with {status}");
    vm.wait_for_state("NoState/", mark, EVENT).await
}

/// A client that polls without a pause.
async fn poll(vm: &TestVm) -> Result<JoinHandle<()>> {
    let (client, vmi) = (vm.new_client().await?, vm.vmi.clone());
    Ok(tokio::spawn(async move {
        for call in [Call::GetDomainStats, Call::GetDomain].iter().cycle() {
            if ask(&client, &vmi, *call).await.is_err() {
                return;
            }
        }
    }))
}

/// The number and size of files in a directory tree.
#[derive(Default)]
struct Usage {
    files: usize,
    bytes: u64,
}

fn usage(directory: &Path) -> Result<Usage> {
    let mut found = Usage::default();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            found.files += 1;
            // A log grows by a line or two per boot. Only more than that counts as a leak.
            found.bytes += if metadata.is_file() {
                metadata.len()
            } else {
                0
            };
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn own_descriptors() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

fn holdings(vm: &TestVm, program: Program) -> Result<Holdings> {
    let process = vm
        .process(program)
        .with_context(|| format!("{program:?} does not run"))?;
    Holdings::of(&process)
}

/// Sends many commands to one launcher, from one client or from many at once.
async fn commands(many: bool) -> Result<String> {
    let mut vm = TestVm::create(Setup::Plain)?;
    vm.reach(Phase::Running).await?;
    let ask = async |vm: &TestVm, warm_up: bool| match (many, warm_up) {
        (false, true) => cycles(vm, WARM_UP).await,
        (false, false) => cycles(vm, CYCLES).await,
        (true, true) => mixed_commands(vm, CLIENTS, FEW_COMMANDS).await,
        (true, false) => mixed_commands(vm, CLIENTS, MANY_COMMANDS).await,
    };
    ask(&vm, true).await?;
    let before = settled(&vm).await?;
    ask(&vm, false).await?;
    let after = settled(&vm).await?;
    after.compare(&before)?;
    Ok(format!("{before:?} before, {after:?} after"))
}

/// The launcher's resources after idle connections and pool threads have ended.
async fn settled(vm: &TestVm) -> Result<Holdings> {
    tokio::time::sleep(IDLE).await;
    holdings(vm, Program::Launcher)
}

async fn cycles(vm: &TestVm, count: usize) -> Result<()> {
    let calls = [
        Call::Pause,
        Call::GetDomain,
        Call::Sync,
        Call::Unpause,
        Call::GetDomainStats,
        Call::GetGuestInfo,
        Call::GetQemuVersion,
        Call::Sync,
        Call::Ping,
    ];
    for number in 0..count {
        for call in calls {
            vm.ask(call)
                .await?
                .ok()
                .with_context(|| format!("{call:?} in cycle {number}"))?;
        }
        drop(vm.new_client().await?);
    }
    Ok(())
}
