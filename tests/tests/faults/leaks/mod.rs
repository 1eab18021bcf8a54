//! Repeated boots and shutdowns, commands and migrations leak no process, file descriptor, file or memory.

mod migrations;
mod pod_files;
mod process_resources;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tests::binaries;
use tests::launcher_fixture::EVENT_TIMEOUT;
use tokio::task::JoinHandle;

use self::migrations::GuestLoad;
use self::pod_files::{DiskUsage, disk_usage};
use self::process_resources::ProcessResources;
use crate::command_socket_clients::run_many_clients;
use crate::fault_row::{Phase, Program, Setup};
use crate::fault_row_calls::{Call, ask};
use crate::leftover_sockets::check_no_socket_left;
use crate::matrix_runner::save_logs;
use crate::test_vm::TestVm;

/// The number of boots on libvirt's test driver and on QEMU: half of them in one pod, half in another.
const TEST_DRIVER_BOOTS: usize = 200;
const QEMU_BOOTS: usize = 20;
/// The environment variable with the number of boots on QEMU of a long run.
const BOOTS: &str = "BOOTS";
const TEST_DRIVER_ARGUMENTS: [&str; 2] = ["--libvirt-uri", "test:///default"];
/// The number of command cycles before the first measurement of a launcher.
const WARM_UP: usize = 30;
/// The number of command cycles between the two measurements.
const CYCLES: usize = 200;
/// The number of concurrent clients.
const CLIENTS: usize = 100;
/// The number of commands per client before the first measurement.
const FEW_COMMANDS: usize = 10;
/// The number of commands per client between the two measurements.
const MANY_COMMANDS: usize = 100;
/// The time after which idle connections and pool threads have ended.
const IDLE_TIME: Duration = Duration::from_secs(12);

/// Runs all leak tests. Returns the number of failures.
pub(crate) async fn run(filters: &[String]) -> usize {
    let is_selected = |name: &str| {
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
        if is_selected(name) {
            let begin = Instant::now();
            report(name, begin, check_commands(many).await);
        }
    }
    let name = "boots on libvirt's simulator";
    if is_selected(name) {
        let begin = Instant::now();
        let boots = boots_in_two_pods(TEST_DRIVER_BOOTS, &TEST_DRIVER_ARGUMENTS).await;
        report(name, begin, boots);
    }
    let name = "boots on QEMU";
    if is_selected(name) {
        let begin = Instant::now();
        report(name, begin, boots_on_qemu().await);
    }
    for (name, guest) in [
        ("migrations of an idle guest", GuestLoad::Idle),
        (
            "migrations of a guest that dirties memory",
            GuestLoad::DirtiesMemory,
        ),
    ] {
        if is_selected(name) {
            let begin = Instant::now();
            report(name, begin, migrations::repeated_migrations(guest).await);
        }
    }
    let name = "migrations that are cancelled";
    if is_selected(name) {
        let begin = Instant::now();
        report(name, begin, migrations::cancelled_migrations().await);
    }
    failed
}

/// [`QEMU_BOOTS`] boots, or as many as [`BOOTS`] says. Of a long run the file `boots-done` in the target directory has the
/// number of those that have succeeded: the next run goes on there, and removes the file at the end.
async fn boots_on_qemu() -> Result<String> {
    let Some(wanted) = std::env::var_os(BOOTS) else {
        return boots_in_two_pods(QEMU_BOOTS, &[]).await;
    };
    let wanted = wanted.to_str().and_then(|count| count.parse().ok());
    let wanted: usize = wanted.with_context(|| format!("{BOOTS} is not a number"))?;
    let file = binaries::target_dir().join("boots-done");
    let mut done = match fs::read_to_string(&file) {
        Ok(text) => text
            .trim()
            .parse()
            .with_context(|| format!("{}", file.display()))?,
        Err(_) => 0,
    };
    while done < wanted {
        boots_in_two_pods(QEMU_BOOTS, &[]).await?;
        done += QEMU_BOOTS;
        println!("     leaks: {done} of {wanted} boots on QEMU");
        fs::write(&file, done.to_string())?;
    }
    fs::remove_file(&file)?;
    Ok(format!("{done} boots, each {QEMU_BOOTS} in two new pods"))
}

async fn boots_in_two_pods(count: usize, extra: &[&str]) -> Result<String> {
    let (first_pod, second_pod) = tokio::join!(
        repeated_boots(count / 2, extra),
        repeated_boots(count / 2, extra)
    );
    Ok(format!("{}; {}", first_pod?, second_pod?))
}

/// Boots and shuts down a VM `count` times in the directories of one pod, like a restarted container.
async fn repeated_boots(count: usize, extra: &[&str]) -> Result<String> {
    let mut vm = TestVm::create(Setup::IgnoresPowerButton)?;
    let descriptors = own_descriptors()?;
    let mut first = DiskUsage::default();
    for number in 1..=count {
        if let Err(error) = boot_and_shut_down(&mut vm, extra).await {
            save_logs(&vm, &format!("leaks boot {number}"), &format!("{error:#}"));
            return Err(error.context(format!("boot {number}")));
        }
        check_no_socket_left(&vm)?;
        ensure!(
            vm.pod.processes().is_empty(),
            "left: {:?}",
            vm.pod.processes()
        );
        if number == 2 {
            first = disk_usage(&vm.pod.path("/run"))?;
        }
    }
    let last = disk_usage(&vm.pod.path("/run"))?;
    ensure!(
        last.files <= first.files,
        "{} files after two boots, {} after {count}",
        first.files,
        last.files
    );
    ensure!(
        // A log grows by a line or two per boot.
        last.bytes <= first.bytes + (1 << 20),
        "{} bytes after two boots, {} after {count}",
        first.bytes,
        last.bytes
    );
    // The test's own clients and servers may close some connections later.
    let now = own_descriptors()?;
    ensure!(
        now <= descriptors + 40,
        "{descriptors} descriptors before, {now} after"
    );
    Ok(format!(
        "{count} boots, {} files and {} bytes left by each last one",
        last.files, last.bytes
    ))
}

async fn boot_and_shut_down(vm: &mut TestVm, extra: &[&str]) -> Result<()> {
    let first_event_index = vm.events().len();
    vm.start(extra)?;
    vm.wait_until_ready().await?;
    vm.ask(Call::Sync).await?.accepted()?;
    vm.wait_for_state("Running/", first_event_index, EVENT_TIMEOUT)
        .await?;
    // The launcher must end while clients make calls.
    let pollers = [poll(vm).await?, poll(vm).await?];
    vm.ask(Call::Kill).await?.accepted()?;
    vm.ask(Call::Delete).await?.accepted()?;
    let status = vm.pod.wait_for_exit(Duration::from_secs(20)).await?;
    for poller in pollers {
        poller.abort();
    }
    ensure!(status.success(), "the pod ended with {status}");
    vm.wait_for_state("NoState/", first_event_index, EVENT_TIMEOUT)
        .await
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

fn own_descriptors() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

fn resources(vm: &TestVm, program: Program) -> Result<ProcessResources> {
    let process = vm
        .process(program)
        .with_context(|| format!("{program:?} does not run"))?;
    ProcessResources::measure(&process)
}

/// Sends many commands to one launcher, from one client or from many at once.
async fn check_commands(many: bool) -> Result<String> {
    let mut vm = TestVm::create(Setup::Plain)?;
    vm.reach(Phase::Running).await?;
    let run_commands = async |vm: &TestVm, warm_up: bool| match (many, warm_up) {
        (false, true) => run_command_cycles(vm, WARM_UP).await,
        (false, false) => run_command_cycles(vm, CYCLES).await,
        (true, true) => run_many_clients(vm, CLIENTS, FEW_COMMANDS).await,
        (true, false) => run_many_clients(vm, CLIENTS, MANY_COMMANDS).await,
    };
    run_commands(&vm, true).await?;
    let before = resources_when_idle(&vm).await?;
    run_commands(&vm, false).await?;
    let after = resources_when_idle(&vm).await?;
    after.compare(&before)?;
    Ok(format!("{before:?} before, {after:?} after"))
}

/// The launcher's resources after idle connections and pool threads have ended.
async fn resources_when_idle(vm: &TestVm) -> Result<ProcessResources> {
    tokio::time::sleep(IDLE_TIME).await;
    resources(vm, Program::Launcher)
}

async fn run_command_cycles(vm: &TestVm, count: usize) -> Result<()> {
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
                .accepted()
                .with_context(|| format!("{call:?} in cycle {number}"))?;
        }
        drop(vm.new_client().await?);
    }
    Ok(())
}
