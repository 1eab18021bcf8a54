//! Measures live migrations between two pods: duration, downtime, cancellation, and the hooks of the target.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::build_and_install_hooks as hooks;
use tests::migration::{MigratingVm, PreparedMigration, guest_memory_load, stock_options};
use tests::pod::LauncherUser;
use tests::virsh::migratable_xml;
use tests::vmi_builder::Vmi;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::median;

/// Migrations per median.
const MIGRATIONS: usize = 20;
/// Cancellations per median.
const CANCELLATIONS: usize = 10;
/// Incoming domains per median.
const INCOMING_DOMAINS: usize = 50;
/// Hook modules on the target.
const MODULES: usize = 4;
/// A bandwidth so small that the cancellation arrives while memory is transferred.
const SLOW_BANDWIDTH: &str = "8Mi";
const MIGRATION_UID: &str = "4d4d0000-0000-4000-8000-000000000001";

/// The medians of one kind of migration in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigrationTimes {
    pub(crate) request_to_end: f64,
    pub(crate) downtime: f64,
}

/// All medians in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigrationMedians {
    pub(crate) idle: MigrationTimes,
    pub(crate) dirtying: MigrationTimes,
    pub(crate) cancel: f64,
    /// The time that each module on the target adds to libvirt's hook call.
    pub(crate) hook: f64,
    /// The time of libvirt's hook call without modules.
    pub(crate) no_hook: f64,
}

/// Measures everything, with a guest of 256 MiB.
pub(crate) async fn measure() -> Result<MigrationMedians> {
    let vm = boot("measured").await?;
    let (vm, idle) = measure_migrations(vm, "idle").await?;
    guest_memory_load::dirty_memory(vm.launcher(), vm.vmi()).await?;
    let (vm, dirtying) = measure_migrations(vm, "dirtying").await?;
    let (vm, cancel) = measure_cancellations(vm).await?;
    vm.end().await?;
    let no_hook = measure_incoming_domain(0).await?;
    let hooks = measure_incoming_domain(MODULES).await?;
    Ok(MigrationMedians {
        idle,
        dirtying,
        cancel,
        hook: (hooks - no_hook) / MODULES as f64,
        no_hook,
    })
}

fn vmi(name: &str) -> Vmi {
    Vmi::new(name, LauncherUser::Nonroot).edit(|vmi| {
        let size = json!("256Mi");
        let domain = &mut vmi["spec"]["domain"];
        domain["memory"]["guest"] = size.clone();
        domain["resources"]["requests"]["memory"] = size.clone();
        vmi["status"]["memory"] =
            json!({ "guestAtBoot": size, "guestCurrent": size, "guestRequested": size });
    })
}

async fn boot(name: &str) -> Result<MigratingVm> {
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    MigratingVm::boot(prepared, vmi(name), &[]).await
}

#[allow(clippy::cast_precision_loss)]
async fn measure_migrations(
    mut vm: MigratingVm,
    what: &str,
) -> Result<(MigratingVm, MigrationTimes)> {
    let (mut times, mut downtimes) = (Vec::new(), Vec::new());
    for number in 1..=MIGRATIONS {
        let (next, migration) = vm.migrate(&stock_options()).await?;
        vm = next;
        println!(
            "{what} guest, migration {number}/{MIGRATIONS}: {} ms, downtime {} ms, libvirt's call {} ms",
            migration.request_to_end.as_millis(),
            migration.job.downtime,
            migration.job.elapsed
        );
        times.push(milliseconds(migration.request_to_end));
        downtimes.push(migration.job.downtime as f64);
    }
    let times = MigrationTimes {
        request_to_end: median(times),
        downtime: median(downtimes),
    };
    Ok((vm, times))
}

async fn measure_cancellations(mut vm: MigratingVm) -> Result<(MigratingVm, f64)> {
    let mut options = stock_options();
    options["Bandwidth"] = json!(SLOW_BANDWIDTH);
    options["ParallelMigrationThreads"] = Value::Null;
    let mut times = Vec::new();
    for number in 1..=CANCELLATIONS {
        let (next, migration) = vm.cancel(&options).await?;
        vm = next;
        let time = milliseconds(migration.cancel_to_end);
        println!("cancellation {number}/{CANCELLATIONS}: {time:.0} ms");
        times.push(time);
    }
    Ok((vm, median(times)))
}

/// The median time of libvirt's hook call for an incoming domain, on a target with this many modules.
async fn measure_incoming_domain(modules: usize) -> Result<f64> {
    let vmi = vmi("incoming")
        .cloud_init("#cloud-config\n")
        .annotate("disk-tuning.example.com/cache", "writeback")
        .edit(|vmi| {
            vmi["status"]["volumeStatus"] =
                json!([{ "name": "cloudinit", "target": "vda", "size": 1 << 20 }]);
        });
    let mut prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    prepared.source.pod.suppress_log();
    prepared.target.pod.suppress_log();
    let module = hooks::example("disk-tuning-hook")?;
    for number in 0..modules {
        let directory = prepared.target.pod.hooks_dir()?;
        hooks::install(&directory, &format!("hook-sidecar-{number}"), &module)?;
    }
    let count = modules.to_string();
    let count = ["--hook-sidecars", count.as_str()];
    let pods = prepared.start(&vmi, &count).await?;
    pods.source.boot_without_controller(&vmi).await?;
    pods.source.wait_for_agent(&vmi).await?;
    let _proxies = pods.prepare_target(&vmi, MIGRATION_UID).await?;
    let xml = migratable_xml(&pods.source.pod, &vmi).await?;
    let socket = pods.target.pod.share_dir().join("migration-hook-socket");
    let mut times = Vec::new();
    for _ in 0..INCOMING_DOMAINS {
        let begin = Instant::now();
        let mut connection = UnixStream::connect(&socket)
            .await
            .with_context(|| format!("{}", socket.display()))?;
        connection.write_all(xml.as_bytes()).await?;
        connection.shutdown().await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        ensure!(answer.contains("<domain"), "the answer: {answer}");
        ensure!(
            (modules == 0) != answer.contains("writeback"),
            "the answer: {answer}"
        );
        times.push(milliseconds(begin.elapsed()));
    }
    pods.source.commands.kill(&vmi).await?.accepted()?;
    Ok(median(times))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
