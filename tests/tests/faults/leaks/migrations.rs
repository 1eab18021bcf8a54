//! Migrations back and forth leak no process, socket, file, domain, descriptor or memory, on either side.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::launcher_fixture::LauncherFixture;
use tests::migration::guest_memory_load;
use tests::migration::{MigratingVm, PreparedMigration, stock_options};
use tests::pod::{LauncherUser, Process};
use tests::virsh::defined_domains;
use tests::vmi_builder::Vmi;

use super::pod_files::files_of_pod;
use super::process_resources::{MemoryTrend, ProcessResources, daemon_connections};

/// The number of migrations that succeed.
const MIGRATIONS: usize = 50;
/// The number of migrations of one launcher that are cancelled.
const CANCELLATIONS: usize = 20;
/// The number of migrations before the first measurement. It is even, so that the VM is back in the pod where it
/// booted.
const WARM_UP: usize = 6;

/// The load of the guest during the migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestLoad {
    Idle,
    DirtiesMemory,
}

/// Migrates a VM [`MIGRATIONS`] times between two pods.
pub(super) async fn repeated_migrations(guest: GuestLoad) -> Result<String> {
    let vmi = Vmi::new("shuttles", LauncherUser::Nonroot);
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    let mut vm = MigratingVm::boot(prepared, vmi, &[]).await?;
    if guest == GuestLoad::DirtiesMemory {
        guest_memory_load::dirty_memory(vm.launcher(), vm.vmi()).await?;
    }
    let mut rounds = 0;
    let mut baseline = None;
    let mut times = Vec::new();
    for number in 1..=MIGRATIONS {
        let result = vm.migrate(&stock_options()).await;
        let (next, migration) = result.with_context(|| format!("migration {number}"))?;
        vm = next;
        times.push((migration.request_to_end.as_millis(), migration.job.downtime));
        let context = || format!("after migration {number}");
        check_left_pod(&vm).with_context(context)?;
        check_running_pod(&vm).await.with_context(context)?;
        if guest == GuestLoad::DirtiesMemory {
            let current_rounds = guest_memory_load::rounds(vm.launcher(), vm.vmi()).await?;
            ensure!(
                current_rounds > rounds,
                "the guest does not go on: {current_rounds} after {rounds} rounds"
            );
            rounds = current_rounds;
        }
        if number == WARM_UP {
            baseline = Some(PodRemains::measure(&vm).await?);
        }
    }
    let first = baseline.context("too few migrations")?;
    let last = PodRemains::measure(&vm).await?;
    last.compare(&first)?;
    let facts = format!(
        "{MIGRATIONS} migrations, median {:?} ms from the request to the end and {:?} ms downtime; {} files in the pod that \
         was left; after {WARM_UP}: {:?}; after {MIGRATIONS}: {:?}",
        median(times.iter().map(|(time, _)| *time).collect()),
        median(
            times
                .iter()
                .map(|(_, downtime)| u128::from(*downtime))
                .collect()
        ),
        last.left_files.len(),
        first.resources,
        last.resources,
    );
    vm.end().await?;
    Ok(facts)
}

/// Cancels [`CANCELLATIONS`] migrations of one launcher.
pub(super) async fn cancelled_migrations() -> Result<String> {
    let vmi = Vmi::new("stays", LauncherUser::Nonroot);
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    let mut vm = MigratingVm::boot(prepared, vmi, &[]).await?;
    let mut slow = stock_options();
    slow["Bandwidth"] = json!("1Mi");
    slow["ParallelMigrationThreads"] = serde_json::Value::Null;
    let mut baseline = None;
    let mut memory = MemoryTrend::default();
    for number in 1..=CANCELLATIONS {
        let result = vm.cancel(&slow).await;
        let (next, _) = result.with_context(|| format!("migration {number}"))?;
        vm = next;
        check_left_pod(&vm).with_context(|| format!("after migration {number}"))?;
        check_running_pod(&vm)
            .await
            .with_context(|| format!("after migration {number}"))?;
        match number.cmp(&WARM_UP) {
            Ordering::Less => {}
            Ordering::Equal => baseline = Some(PodRemains::measure(&vm).await?),
            Ordering::Greater => memory.add(&launcher_resources(&vm)?),
        }
    }
    let first = baseline.context("too few migrations")?;
    let last = PodRemains::measure(&vm).await?;
    last.compare(&first)?;
    memory.expect_flat().context("launcher")?;
    let facts = format!(
        "{CANCELLATIONS} migrations; launcher {:+.0} KiB in all; after {WARM_UP}: {:?}; after the last: {:?}",
        memory.growth_kib(),
        first.resources,
        last.resources
    );
    vm.end().await?;
    Ok(facts)
}

/// Checks that the pod that the VM left has no process, no domain definition and no migration socket.
fn check_left_pod(vm: &MigratingVm) -> Result<()> {
    let pod = &vm.empty_pod().pod;
    let processes = pod.processes();
    ensure!(processes.is_empty(), "left in the pod: {processes:?}");
    let domain = vm.vmi().domain();
    let files = files_of_pod(pod)?;
    let definition = files
        .iter()
        .find(|path| path.ends_with(&format!("{domain}.xml")));
    ensure!(definition.is_none(), "a definition is left: {definition:?}");
    check_no_migration_socket(&files)
}

/// Checks that the pod where the VM runs has no other domain and no migration socket.
async fn check_running_pod(vm: &MigratingVm) -> Result<()> {
    let pod = &vm.launcher().pod;
    let domains = defined_domains(pod).await?;
    ensure!(domains == [vm.vmi().domain()], "domains: {domains:?}");
    check_no_migration_socket(&files_of_pod(pod)?)
}

fn check_no_migration_socket(files: &BTreeSet<String>) -> Result<()> {
    let socket = files
        .iter()
        .find(|path| path.contains("migrationproxy/") || path.ends_with("migration-hook-socket"));
    ensure!(
        socket.is_none(),
        "a socket of the migration is left: {socket:?}"
    );
    Ok(())
}

/// The files, processes' resources and connections after a migration.
struct PodRemains {
    /// The files in the pod that the VM left.
    left_files: BTreeSet<String>,
    /// The files in the pod where the VM runs.
    running_files: BTreeSet<String>,
    resources: Vec<(&'static str, ProcessResources)>,
    /// The number of connections to libvirt's daemon in the pod where the VM runs.
    connections: usize,
}

impl PodRemains {
    /// Measures after idle connections and pool threads have ended.
    async fn measure(vm: &MigratingVm) -> Result<PodRemains> {
        tokio::time::sleep(super::IDLE_TIME).await;
        Ok(PodRemains {
            left_files: files_of_pod(&vm.empty_pod().pod)?,
            running_files: files_of_pod(&vm.launcher().pod)?,
            resources: resources(vm.launcher())?,
            connections: daemon_connections(&launcher_process(vm)?)?,
        })
    }

    fn compare(&self, first: &PodRemains) -> Result<()> {
        for (what, now, before) in [
            (
                "in the pod that was left",
                &self.left_files,
                &first.left_files,
            ),
            (
                "where the VM runs",
                &self.running_files,
                &first.running_files,
            ),
        ] {
            let new: Vec<_> = now.difference(before).collect();
            ensure!(new.is_empty(), "new files {what}: {new:?}");
        }
        for ((program, now), (_, before)) in self.resources.iter().zip(&first.resources) {
            now.compare(before).with_context(|| (*program).to_owned())?;
        }
        let (now, before) = (self.connections, first.connections);
        ensure!(before > 0, "the launcher's connection is not seen");
        ensure!(
            now <= before,
            "{now} connections to libvirt, {before} before"
        );
        Ok(())
    }
}

fn launcher_process(vm: &MigratingVm) -> Result<Process> {
    let process = vm.launcher().pod.process("virt-launcher");
    process.context("no launcher runs")
}

fn launcher_resources(vm: &MigratingVm) -> Result<ProcessResources> {
    ProcessResources::measure(&launcher_process(vm)?)
}

fn resources(launcher: &LauncherFixture) -> Result<Vec<(&'static str, ProcessResources)>> {
    let pod = &launcher.pod;
    let programs = [
        ("launcher", pod.process("virt-launcher")),
        ("monitor", pod.process("virt-launcher-monitor")),
        ("daemon", pod.daemon()),
        ("QEMU", pod.qemu()),
    ];
    programs
        .into_iter()
        .map(|(name, process)| {
            let process = process.with_context(|| format!("no {name} runs"))?;
            let resources = ProcessResources::measure(&process)?;
            match name {
                "QEMU" => Ok((name, resources.only_descriptors())),
                _ => Ok((name, resources)),
            }
        })
        .collect()
}

fn median(mut values: Vec<u128>) -> Option<u128> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
