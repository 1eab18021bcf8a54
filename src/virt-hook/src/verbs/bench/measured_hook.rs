//! The hook under measurement: compiled, loaded and called in this process.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use hook_host::wasm::CodeOrigin;
use hook_host::{AttachTime, Chain, CollectConfig, Compiler, HookPoint, PolicySource};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::{Arguments, LatencyPercentiles};
use crate::hook_module::HookModule;
use crate::inputs::{VmiInput, VmiSource};
use crate::interactive_compile::{HOST_NAME, module_file_size};
use crate::module_chain::{HookOptions, ModuleCode};
use crate::temporary_directory::TemporaryDirectory;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;
use crate::{interactive_compile, module_chain, module_discovery};

const WARM_UP_CALLS: usize = 20;
const COMPILATION_COUNT: usize = 5;
const LOAD_COUNT: usize = 21;
/// A longer compilation is measured only twice.
const LONG_COMPILATION: Duration = Duration::from_secs(5);
/// The directory with the code of the first compilation.
const COLD_DIRECTORY: &str = "cold";
/// The VMI without `--vmi`: one of everyday size.
const DEFAULT_VMI: &str = include_str!("../check/built_in_vmis/linux.yaml");

/// The module to measure and its input.
pub(super) struct MeasuredHook {
    pub(super) runtime: Runtime,
    pub(super) modules: Vec<HookModule>,
    pub(super) temp_dir: TemporaryDirectory,
    pub(super) policy: PathBuf,
    pub(super) input: VmiInput,
    pub(super) sha256: String,
    pub(super) bytes: u64,
    /// The first compilation, whose artifact is in [`COLD_DIRECTORY`].
    first_compilation: CodeOrigin,
}

impl MeasuredHook {
    pub(super) fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let path = &arguments.module;
        let bytes = module_file_size(path).map_err(Failure::Usage)?;
        let temp_dir = TemporaryDirectory::new()
            .context("making a temporary directory")
            .map_err(Failure::Internal)?;
        let runtime = runtime()?;
        let cold = temp_dir.path().join(COLD_DIRECTORY);
        let module = runtime.block_on(interactive_compile::load(path, &cold))?;
        let module = module.map_err(Failure::from_load_error);
        let module = module.map_err(|failure| failure.map(interactive_compile::explain_any))?;
        let description = std::slice::from_ref(module.description());
        let policy = arguments.grants.policy_for(description, temp_dir.path())?;
        Ok(Self {
            modules: module_discovery::find(std::slice::from_ref(path)).map_err(Failure::Usage)?,
            input: input(arguments)?.with_attached_devices(),
            sha256: module.digest().to_owned(),
            first_compilation: module.code_origin().clone(),
            runtime,
            temp_dir,
            policy,
            bytes,
        })
    }

    /// The hook point to measure: the first one that the hook subscribes to, the most expensive first.
    pub(super) fn point(&self, chain: &Chain) -> Result<HookPoint, Failure> {
        let infos = chain.hooks();
        let points = [
            HookPoint::OnDefineDomain,
            HookPoint::PreCloudInitIso,
            HookPoint::OnAttachDevice,
            HookPoint::PreMigrationSource,
            HookPoint::PreStart,
            HookPoint::Shutdown,
        ];
        let is_called =
            |point: &HookPoint| infos.iter().any(|info| info.priority(*point).is_some());
        let point = points.into_iter().find(is_called);
        point.ok_or_else(|| {
            let path = self.module().display();
            Failure::refused(anyhow!("{path}: it has no hook point, and is never called"))
        })
    }

    pub(super) fn module(&self) -> &Path {
        &self.modules[0].module
    }

    fn load(&self, dir: &Path) -> Result<CodeOrigin, Failure> {
        let loading = interactive_compile::load(self.module(), dir);
        let loaded = self.runtime.block_on(loading)?;
        Ok(loaded.map_err(Failure::internal)?.code_origin().clone())
    }

    pub(super) fn compilations(&self) -> Result<(LatencyPercentiles, Option<u64>), Failure> {
        let mut peak = None;
        let count = match self.first_compilation {
            CodeOrigin::Compiled { took, .. } if took > LONG_COMPILATION => 2,
            _ => COMPILATION_COUNT,
        };
        let times = LatencyPercentiles::measure(count, |number| {
            let code = match number {
                0 => self.first_compilation.clone(),
                _ => self.load(&self.temp_dir.path().join(format!("cold-{number}")))?,
            };
            match code {
                CodeOrigin::Compiled {
                    took, peak_memory, ..
                } => {
                    peak = peak.max(peak_memory);
                    Ok(took)
                }
                // Cannot happen: each compilation has an empty directory.
                CodeOrigin::Cached | CodeOrigin::Precompiled { .. } => Ok(Duration::ZERO),
            }
        })?;
        Ok((times, peak))
    }

    pub(super) fn loads(&self) -> Result<LatencyPercentiles, Failure> {
        let dir = self.temp_dir.path().join(COLD_DIRECTORY);
        LatencyPercentiles::measure(LOAD_COUNT, |_| {
            let started = Instant::now();
            self.load(&dir)?;
            Ok(started.elapsed())
        })
    }

    pub(super) fn chain(&self) -> Result<Chain, Failure> {
        let options = HookOptions {
            policy: PolicySource::File(self.policy.clone()),
            namespace: self.input.invocation.namespace.clone(),
            code: ModuleCode::Compiled(self.temp_dir.path().join(COLD_DIRECTORY)),
            ..HookOptions::default()
        };
        let chain = module_chain::collect(&self.modules, self.temp_dir.path(), options);
        self.runtime.block_on(chain)
    }

    pub(super) fn calls(
        &self,
        chain: &Chain,
        point: HookPoint,
        calls: usize,
    ) -> Result<(LatencyPercentiles, usize), Failure> {
        for _ in 0..WARM_UP_CALLS {
            self.call(chain, point)?;
        }
        let mut peak = 0;
        let times = LatencyPercentiles::measure(calls, |_| {
            let started = Instant::now();
            peak = peak.max(self.call(chain, point)?);
            Ok(started.elapsed())
        })?;
        Ok((times, peak))
    }

    /// Calls the hook. Returns the peak of its linear memories in bytes.
    fn call(&self, chain: &Chain, point: HookPoint) -> Result<usize, Failure> {
        let VmiInput {
            invocation,
            vmi,
            xml,
            is_incoming: _,
            devices,
            migration,
            cloud_init,
        } = &self.input;
        let runs = self.runtime.block_on(async {
            let result = match point {
                HookPoint::PreStart => chain.pre_start(invocation, vmi).await,
                HookPoint::OnDefineDomain => {
                    let result = chain.on_define_domain(invocation, vmi, xml.clone()).await;
                    result.map(|(_, runs)| runs)
                }
                HookPoint::PreCloudInitIso => match cloud_init {
                    Ok(Some(data)) => {
                        let result = chain
                            .pre_cloud_init_iso(invocation, vmi, data.clone())
                            .await;
                        result.map(|(_, runs)| runs)
                    }
                    _ => return Err(nothing_to_measure("cloud-init data")),
                },
                HookPoint::OnAttachDevice => {
                    let Some(device) = devices.first().cloned() else {
                        return Err(nothing_to_measure("device that can be attached"));
                    };
                    let time = AttachTime::default();
                    let result = chain.on_attach_device(invocation, vmi, device, &time).await;
                    result.map(|(_, runs)| runs)
                }
                HookPoint::PreMigrationSource => {
                    let parameters = migration.clone();
                    let result = chain
                        .pre_migration_source(invocation, vmi, parameters)
                        .await;
                    result.map(|(_, runs)| runs)
                }
                HookPoint::Shutdown => Ok(chain.shutdown(invocation).await),
            };
            result.map_err(Failure::refused)
        })?;
        Ok(runs
            .iter()
            .map(|run| run.peak_memory)
            .max()
            .unwrap_or_default())
    }
}

/// The error for a VMI without `what`, for which the hook is not called.
fn nothing_to_measure(what: &str) -> Failure {
    Failure::refused(anyhow!("the VMI has no {what}: give --vmi one that has"))
}

fn input(arguments: &Arguments) -> Result<VmiInput, Failure> {
    let instance_types = arguments.instance_types.read()?;
    match &arguments.vmi {
        Some(path) => VmiSource::on_any_node(path, &instance_types).read(),
        None => VmiInput::on_any_node(DEFAULT_VMI),
    }
}

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

pub(super) fn measure_served(
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
