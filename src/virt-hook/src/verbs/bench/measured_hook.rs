//! The hook under measurement: compiled, loaded and called in this process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use hook_host::wasm::CodeOrigin;
use hook_host::{AttachTime, Chain, HookPoint, PolicySource};
use tokio::runtime::Runtime;

use super::arguments::Arguments;
use super::percentiles::LatencyPercentiles;
use crate::hook_module::HookModule;
use crate::inputs::{VmiInput, VmiSource};
use crate::interactive_compile;
use crate::module_chain::{self, HookOptions, ModuleCode};
use crate::module_discovery;
use crate::module_file_size::module_file_size;
use crate::temporary_directory::TemporaryDirectory;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;

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
