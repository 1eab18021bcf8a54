//! Measures the hook in `virt-hook serve`, called as a launcher calls sidecars.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use hook_host::{Chain, CollectConfig, Compiler, HookPoint};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::measured_hook::MeasuredHook;
use super::percentiles::LatencyPercentiles;
use crate::interactive_compile;
use crate::interactive_compile::HOST_NAME;
use crate::verb_failure::Failure;

/// Deadline until the sidecar is ready; compiling alone may take three minutes.
const READY_TIMEOUT: Duration = Duration::from_secs(200);
/// The file with the sidecar's standard error, below the temporary directory of the measurement.
const STDERR_FILE: &str = "stderr";
/// Time from SIGTERM, on which the sidecar removes its socket, to SIGKILL.
const SIGTERM_GRACE: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The measurements of the sidecar.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServedCost {
    /// Duration of a call, each on a new connection.
    pub(super) calls: LatencyPercentiles,
    /// Milliseconds from the start of the program until its socket answers, including compilation.
    pub(super) ready_millis: u64,
    /// Resident memory of the program before the first call, in bytes.
    pub(super) idle_memory: u64,
}

pub(super) fn measure(
    hook: &MeasuredHook,
    point: HookPoint,
    calls: usize,
) -> Result<ServedCost, Failure> {
    let served_dir = hook.temp_dir.path().join("served");
    let started = Instant::now();
    let sidecar = Sidecar::start(hook, &served_dir.join("hook-sidecar-0"));
    let mut sidecar = sidecar.map_err(Failure::Internal)?;
    let chain = collect(hook, &served_dir, &mut sidecar)?;
    let ready = started.elapsed();
    let idle_memory = sidecar.resident_memory().unwrap_or_default();
    let (calls, _) = hook.calls(&chain, point, calls)?;
    Ok(ServedCost {
        calls,
        ready_millis: u64::try_from(ready.as_millis()).unwrap_or(u64::MAX),
        idle_memory,
    })
}

fn collect(
    hook: &MeasuredHook,
    served_dir: &Path,
    sidecar: &mut Sidecar,
) -> Result<Chain, Failure> {
    let config = CollectConfig {
        hooks_dir: served_dir.to_owned(),
        expected: 1,
        deadline: READY_TIMEOUT,
        artifacts_dir: hook.temp_dir.path().join("none"),
        compiler: Compiler::InProcess,
        host_name: HOST_NAME.to_owned(),
        ..CollectConfig::default()
    };
    let ready = async {
        tokio::select! {
            chain = hook_host::collect(config) => chain.map_err(|error| error.to_string()),
            () = sidecar.wait_for_exit() => Err(last_line(&hook.temp_dir.path().join(STDERR_FILE))),
        }
    };
    let chain = hook
        .runtime
        .block_on(interactive_compile::with_progress(hook.module(), ready));
    chain.map_err(|error| Failure::internal(anyhow!("virt-hook serve: {error}")))
}

/// The last line of a program's standard error.
fn last_line(path: &Path) -> String {
    let stderr = fs::read_to_string(path).unwrap_or_default();
    let last = stderr
        .lines()
        .last()
        .unwrap_or("it ended without a message");
    last.trim_start_matches("virt-hook: ").to_owned()
}

/// A child process that runs `virt-hook serve`. Terminated on drop.
struct Sidecar(Child);

impl Sidecar {
    fn start(hook: &MeasuredHook, directory: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let program = std::env::current_exe().context("finding this program")?;
        let stderr = hook.temp_dir.path().join(STDERR_FILE);
        let stderr = File::create(&stderr).with_context(|| stderr.display().to_string())?;
        let child = Command::new(program)
            .args(["serve", "--socket", "bench.sock", "--hooks-dir"])
            .arg(directory)
            .arg("--module")
            .arg(hook.module())
            .arg("--policy")
            .arg(&hook.policy)
            .args(["--namespace", &hook.input.invocation.namespace])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn();
        Ok(Self(child.context("starting virt-hook serve")?))
    }

    fn resident_memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib << 10)
    }

    async fn wait_for_exit(&mut self) {
        while !self.has_exited() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn has_exited(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // On SIGTERM the sidecar removes its socket.
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let deadline = Instant::now() + SIGTERM_GRACE;
        while !self.has_exited() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
