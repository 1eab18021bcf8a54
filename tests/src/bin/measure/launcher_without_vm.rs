//! Measures one launcher without a VM: from exec to ready, pings, idle memory, exit.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tests::build_and_install_hooks as hooks;
use tests::emulated_virt_handler::{Commands, VirtHandler};
use tests::pod::{LauncherUser, Pod, Process};
use tests::vmi_builder::Vmi;

use crate::process_memory::{self, ProcessMemory};

/// The number of pings per median.
const PINGS: usize = 3000;
/// The time after which a launcher is idle.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// The clock ticks per second in `/proc/PID/stat`.
const TICKS_PER_SECOND: f64 = 100.0;

/// The measurements of one launcher.
pub(crate) struct LauncherWithoutVm {
    /// Milliseconds from exec to the ready socket. The kernel reports exec in steps of 10 ms.
    pub(crate) ready: f64,
    pub(crate) launcher: ProcessMemory,
    pub(crate) monitor: ProcessMemory,
    /// The median of a Ping in microseconds.
    pub(crate) ping: f64,
    /// Milliseconds from the launcher's exit to the monitor's.
    pub(crate) monitor_exit: f64,
}

/// Starts a launcher with the smbios hook in a new pod, with empty caches.
pub(crate) async fn measure() -> Result<LauncherWithoutVm> {
    let vmi = Vmi::new("measured", LauncherUser::Nonroot);
    let mut pod = Pod::create(LauncherUser::Nonroot)?;
    pod.suppress_log();
    let handler = VirtHandler::listen(&pod.share_dir())?;
    hooks::install(&pod.hooks_dir()?, "smbios", &hooks::example("smbios-hook")?)?;
    pod.start(&vmi, &["--hook-sidecars", "1"])?;
    let ready_at = wait_for_file(&pod.share_dir().join("sockets/launcher-sock"), &pod)?;
    let launcher = pod.process("virt-launcher").context("no launcher")?;
    let ready = (ready_at - start_time(&launcher)?) * 1000.0;

    let commands = handler.commands(Duration::from_secs(5)).await?;
    let monitor = pod.process("virt-launcher-monitor");
    let monitor = monitor.context("no monitor")?;
    let ping = median_ping(&commands).await?;
    tokio::time::sleep(SETTLE_TIME).await;
    Ok(LauncherWithoutVm {
        ready,
        launcher: process_memory::read(pid_of(&launcher))?,
        monitor: process_memory::read(pid_of(&monitor))?,
        ping,
        monitor_exit: end(&mut pod, &launcher).await?,
    })
}

fn pid_of(process: &Process) -> u32 {
    process.pid.as_raw_nonzero().get().unsigned_abs()
}

/// Waits until the file exists. Returns the machine's uptime in seconds at that time.
fn wait_for_file(path: &Path, pod: &Pod) -> Result<f64> {
    let begin = Instant::now();
    while !path.exists() {
        ensure!(
            begin.elapsed() < Duration::from_secs(30),
            "the launcher does not get ready; its log:\n{}",
            pod.log()
        );
        std::thread::sleep(Duration::from_micros(500));
    }
    let uptime = std::fs::read_to_string("/proc/uptime")?;
    let seconds = uptime.split(' ').next().context("/proc/uptime is empty")?;
    Ok(seconds.parse()?)
}

/// The time when the process was started, as uptime of the machine in seconds.
fn start_time(process: &Process) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid_of(process)))?;
    // The name in parentheses may hold spaces; field 22 is the 20th after it.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let ticks = fields.split_whitespace().nth(19).context("no start time")?;
    Ok(ticks.parse::<f64>()? / TICKS_PER_SECOND)
}

async fn median_ping(commands: &Commands) -> Result<f64> {
    let mut times = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let begin = Instant::now();
        commands.ping().await?.accepted()?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let median = times.get(PINGS / 2).context("no ping")?;
    Ok(median.as_secs_f64() * 1e6)
}

/// Ends the pod as the kubelet does. Returns the milliseconds from the launcher's exit to the monitor's.
async fn end(pod: &mut Pod, launcher: &Process) -> Result<f64> {
    pod.signal(Signal::TERM)?;
    let begin = Instant::now();
    while launcher
        .status("State")
        .is_some_and(|state| !state.starts_with('Z'))
    {
        ensure!(
            begin.elapsed() < Duration::from_secs(30),
            "the launcher does not end; its log:\n{}",
            pod.log()
        );
        std::thread::sleep(Duration::from_micros(200));
    }
    let ended = Instant::now();
    let status = pod.wait_for_exit(Duration::from_secs(30)).await?;
    ensure!(status.success(), "the pod ended with {status}");
    Ok(ended.elapsed().as_secs_f64() * 1000.0)
}
