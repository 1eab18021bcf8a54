//! SIGTERM in the first milliseconds of the monitor or the launcher ends the pod with exit code 0.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Signal, kill_process};
use tests::launcher_fixture::PreparedPod;
use tests::pod::{LauncherUser, Process};
use tests::vmi_builder::Vmi;

/// The delays between the start of the process and the signal, in milliseconds.
const DELAYS_MS: [u64; 6] = [0, 1, 5, 10, 20, 30];

/// Polls every 200 microseconds until the process is found, more often than [`tests::wait_until`].
fn poll_fast(mut find: impl FnMut() -> Option<Process>) -> Result<Process> {
    let begin = Instant::now();
    loop {
        if let Some(process) = find() {
            return Ok(process);
        }
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(20), "no such process");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Whether the process has a handler for SIGTERM. Until then the kernel ignores the signal for process 1.
fn handles_sigterm(process: &Process) -> bool {
    let caught = process.status("SigCgt").unwrap_or_default();
    u64::from_str_radix(&caught, 16).is_ok_and(|caught| caught & (1 << 14) != 0)
}

async fn check_exit_code_0(program: &str, delay: u64) -> Result<()> {
    let vmi = Vmi::new("early", LauncherUser::Nonroot);
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared.pod.suppress_log();
    prepared.pod.start(&vmi, &[])?;
    let process = poll_fast(|| {
        let process = prepared.pod.process(program).filter(|process| {
            let executable = std::fs::read_link(format!("/proc/{}/exe", process.pid));
            executable.is_ok_and(|path| path.file_name() == Some(program.as_ref()))
        })?;
        (program == "virt-launcher" || handles_sigterm(&process)).then_some(process)
    })?;
    std::thread::sleep(Duration::from_millis(delay));
    kill_process(process.pid, Signal::TERM)?;
    let status = prepared.pod.wait_for_exit(Duration::from_secs(20)).await?;
    let log = prepared.pod.log();
    anyhow::ensure!(
        status.code() == Some(0),
        "{program} after {delay} ms: {status}\n{log}"
    );
    let ready = prepared.pod.path("/run/kubevirt/sockets/launcher-sock");
    anyhow::ensure!(!Path::new(&ready).exists(), "{program} after {delay} ms");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_to_the_monitor_in_its_first_milliseconds_ends_the_pod_with_0() -> Result<()> {
    for delay in DELAYS_MS {
        check_exit_code_0("virt-launcher-monitor", delay)
            .await
            .with_context(|| format!("{delay} ms"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_to_the_launcher_in_its_first_milliseconds_ends_the_pod_with_0() -> Result<()> {
    for delay in DELAYS_MS {
        check_exit_code_0("virt-launcher", delay)
            .await
            .with_context(|| format!("{delay} ms"))?;
    }
    Ok(())
}
