//! Migrations to and fro leave no process, socket, file, domain, descriptor or memory behind, on either side.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::launcher_fixture::LauncherFixture;
use tests::migration::guest_load;
use tests::migration::{PreparedMigration, Shuttle, defined_domains, stock_options};
use tests::pod::{LauncherUser, Pod, Process};
use tests::vmi_builder::Vmi;

use super::process_resources::{Holdings, MemoryTrend, daemon_connections};

/// The number of migrations that succeed.
const MIGRATIONS: usize = 50;
/// The number of migrations of one launcher that are cancelled.
const CANCELLED: usize = 20;
/// Migrations before the first measurement; an even number, after which the VM is where it was booted.
const WARM_UP: usize = 6;

/// What the guest does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guest {
    Idle,
    DirtiesMemory,
}

/// Migrates a VM [`MIGRATIONS`] times between two pods.
pub(super) async fn migrations(guest: Guest) -> Result<String> {
    let vmi = Vmi::new("shuttles", LauncherUser::Nonroot);
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    let mut shuttle = Shuttle::boot(prepared, vmi, &[]).await?;
    if guest == Guest::DirtiesMemory {
        guest_load::dirty_memory(shuttle.launcher(), shuttle.vmi()).await?;
    }
    let mut rounds = 0;
    let mut warm = None;
    let mut times = Vec::new();
    for number in 1..=MIGRATIONS {
        let migrated = shuttle.migrate(&stock_options()).await;
        let (next, trip) = migrated.with_context(|| format!("migration {number}"))?;
        shuttle = next;
        times.push((trip.request_to_end.as_millis(), trip.job.downtime));
        let context = || format!("after migration {number}");
        departed(&shuttle).with_context(context)?;
        arrived(&shuttle).await.with_context(context)?;
        if guest == Guest::DirtiesMemory {
            let now = guest_load::rounds(shuttle.launcher(), shuttle.vmi()).await?;
            ensure!(
                now > rounds,
                "the guest does not go on: {now} after {rounds} rounds"
            );
            rounds = now;
        }
        if number == WARM_UP {
            warm = Some(Remains::of(&shuttle).await?);
        }
    }
    let first = warm.context("too few migrations")?;
    let last = Remains::of(&shuttle).await?;
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
        last.left.len(),
        first.holdings,
        last.holdings,
    );
    shuttle.end().await?;
    Ok(facts)
}

/// Cancels [`CANCELLED`] migrations of one launcher.
pub(super) async fn cancelled() -> Result<String> {
    let vmi = Vmi::new("stays", LauncherUser::Nonroot);
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    let mut shuttle = Shuttle::boot(prepared, vmi, &[]).await?;
    let mut slow = stock_options();
    slow["Bandwidth"] = json!("1Mi");
    slow["ParallelMigrationThreads"] = serde_json::Value::Null;
    let mut warm = None;
    let mut memory = MemoryTrend::default();
    for number in 1..=CANCELLED {
        let cancelled = shuttle.cancel(&slow).await;
        let (next, _) = cancelled.with_context(|| format!("migration {number}"))?;
        shuttle = next;
        departed(&shuttle).with_context(|| format!("after migration {number}"))?;
        arrived(&shuttle)
            .await
            .with_context(|| format!("after migration {number}"))?;
        match number.cmp(&WARM_UP) {
            Ordering::Less => {}
            Ordering::Equal => warm = Some(Remains::of(&shuttle).await?),
            Ordering::Greater => memory.add(&launcher_holdings(&shuttle)?),
        }
    }
    let first = warm.context("too few migrations")?;
    let last = Remains::of(&shuttle).await?;
    last.compare(&first)?;
    memory.expect_flat().context("launcher")?;
    let facts = format!(
        "{CANCELLED} migrations; launcher {:+.0} KiB in all; after {WARM_UP}: {:?}; after the last: {:?}",
        memory.growth_kib(),
        first.holdings,
        last.holdings
    );
    shuttle.end().await?;
    Ok(facts)
}

/// Nothing runs in the pod that the VM left, and no definition or socket of it is there.
fn departed(shuttle: &Shuttle) -> Result<()> {
    let pod = &shuttle.empty_pod().pod;
    let processes = pod.processes();
    ensure!(processes.is_empty(), "left in the pod: {processes:?}");
    let domain = shuttle.vmi().domain();
    let files = files(pod)?;
    let definition = files
        .iter()
        .find(|path| path.ends_with(&format!("{domain}.xml")));
    ensure!(definition.is_none(), "a definition is left: {definition:?}");
    no_migration_socket(&files)
}

/// The VM is the only domain where it runs, and no socket of the migration is there any more.
async fn arrived(shuttle: &Shuttle) -> Result<()> {
    let pod = &shuttle.launcher().pod;
    let domains = defined_domains(pod).await?;
    ensure!(domains == [shuttle.vmi().domain()], "domains: {domains:?}");
    no_migration_socket(&files(pod)?)
}

fn no_migration_socket(files: &BTreeSet<String>) -> Result<()> {
    let socket = files
        .iter()
        .find(|path| path.contains("migrationproxy/") || path.ends_with("migration-hook-socket"));
    ensure!(
        socket.is_none(),
        "a socket of the migration is left: {socket:?}"
    );
    Ok(())
}

/// What is there after a migration.
struct Remains {
    /// The files in the pod that the VM left.
    left: BTreeSet<String>,
    /// The files where it runs.
    here: BTreeSet<String>,
    holdings: Vec<(&'static str, Holdings)>,
    /// To libvirt's daemon where the VM runs.
    connections: usize,
}

impl Remains {
    /// After idle connections and threads of pools have ended.
    async fn of(shuttle: &Shuttle) -> Result<Remains> {
        tokio::time::sleep(super::IDLE).await;
        Ok(Remains {
            left: files(&shuttle.empty_pod().pod)?,
            here: files(&shuttle.launcher().pod)?,
            holdings: holdings(shuttle.launcher())?,
            connections: daemon_connections(&launcher_process(shuttle)?)?,
        })
    }

    fn compare(&self, first: &Remains) -> Result<()> {
        for (what, now, before) in [
            ("in the pod that was left", &self.left, &first.left),
            ("where the VM runs", &self.here, &first.here),
        ] {
            let new: Vec<_> = now.difference(before).collect();
            ensure!(new.is_empty(), "new files {what}: {new:?}");
        }
        for ((program, now), (_, before)) in self.holdings.iter().zip(&first.holdings) {
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

fn launcher_process(shuttle: &Shuttle) -> Result<Process> {
    let process = shuttle.launcher().pod.process("virt-launcher");
    process.context("no launcher runs")
}

fn launcher_holdings(shuttle: &Shuttle) -> Result<Holdings> {
    Holdings::of(&launcher_process(shuttle)?)
}

fn holdings(launcher: &LauncherFixture) -> Result<Vec<(&'static str, Holdings)>> {
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
            let holdings = Holdings::of(&process)?;
            match name {
                "QEMU" => Ok((name, holdings.descriptors_alone())),
                _ => Ok((name, holdings)),
            }
        })
        .collect()
}

/// The files of a pod, by their paths in its directory.
fn files(pod: &Pod) -> Result<BTreeSet<String>> {
    let root = pod.path("/run");
    let root = root.parent().context("a pod has a directory")?;
    let mut found = BTreeSet::new();
    collect(root, root, &mut found)?;
    Ok(found)
}

fn collect(root: &Path, directory: &Path, found: &mut BTreeSet<String>) -> Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            collect(root, &path, found)?;
        } else if path.extension().is_none_or(|extension| extension != "new") {
            // libvirt writes its state to `NAME.xml.new` first.
            found.insert(path.strip_prefix(root)?.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

fn median(mut values: Vec<u128>) -> Option<u128> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
