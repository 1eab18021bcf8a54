//! The hook under measurement: compiled, loaded and called in this process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use hook_host::wasm::CodeOrigin;
use hook_host::{AttachTime, Chain, HookPoint, PolicySource};
use tokio::runtime::Runtime;

use super::arguments::Arguments;
use super::percentiles::Times;
use crate::exit_codes::Failure;
use crate::inputs::{InputArgs, VmiInput, VmiSource};
use crate::interactive_compile;
use crate::module_chain::{self, HookOptions, ModuleCode};
use crate::module_files::{self, HookModule};
use crate::tokio_runtime::runtime;

const WARM_UP: usize = 20;
const COMPILATIONS: usize = 5;
const LOADS: usize = 21;
/// A compilation that takes longer is measured twice only.
const LONG: Duration = Duration::from_secs(5);
/// Where the first compilation is kept.
const COLD: &str = "cold";
/// A VMI of everyday size.
const VMI: &str = include_str!("../check/sample_vmis/linux.yaml");

/// The module to measure and its input.
pub(super) struct Bench {
    pub(super) runtime: Runtime,
    pub(super) found: Vec<HookModule>,
    pub(super) temp_dir: tempfile::TempDir,
    pub(super) policy: PathBuf,
    pub(super) input: VmiInput,
    pub(super) sha256: String,
    pub(super) bytes: u64,
    /// The compilation of which the artifact is in [`COLD`].
    first: CodeOrigin,
}

impl Bench {
    pub(super) fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let path = &arguments.module;
        let bytes = module_files::size(path).map_err(Failure::Usage)?;
        let temp_dir = tempfile::tempdir()
            .context("making a temporary directory")
            .map_err(Failure::Machine)?;
        let runtime = runtime()?;
        let module = runtime.block_on(module_chain::load(path, &temp_dir.path().join(COLD)));
        let module = module.map_err(Failure::Machine)?;
        let module = module.map_err(Failure::of_load);
        let module = module.map_err(|failure| failure.map(interactive_compile::explain_any))?;
        let policy = match &arguments.policy {
            Some(policy) => policy.clone(),
            None => module_chain::write_granting_policy(
                std::slice::from_ref(module.description()),
                temp_dir.path(),
            )
            .map_err(Failure::Machine)?,
        };
        Ok(Self {
            found: module_files::find(std::slice::from_ref(path)).map_err(Failure::Usage)?,
            input: input(arguments.vmi.as_deref())?.with_attached_devices(),
            sha256: module.digest().to_owned(),
            first: module.code_origin().clone(),
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
            Failure::refused(anyhow!(
                "{path}: it asks for no hook point, and is never called"
            ))
        })
    }

    pub(super) fn module(&self) -> &Path {
        &self.found[0].module
    }

    fn load(&self, dir: &Path) -> Result<CodeOrigin, Failure> {
        let loaded = self
            .runtime
            .block_on(module_chain::load(self.module(), dir));
        let loaded = loaded.map_err(Failure::Machine)?;
        Ok(loaded.map_err(Failure::machine)?.code_origin().clone())
    }

    pub(super) fn compilations(&self) -> Result<(Times, Option<u64>), Failure> {
        let mut peak = None;
        let count = match self.first {
            CodeOrigin::Compiled { took, .. } if took > LONG => 2,
            _ => COMPILATIONS,
        };
        let times = Times::of(count, |number| {
            let code = match number {
                0 => self.first.clone(),
                _ => self.load(&self.temp_dir.path().join(format!("cold-{number}")))?,
            };
            match code {
                CodeOrigin::Compiled {
                    took, peak_memory, ..
                } => {
                    peak = peak.max(peak_memory);
                    Ok(took)
                }
                // Each compilation has its own empty directory.
                CodeOrigin::Cached | CodeOrigin::Precompiled { .. } => Ok(Duration::ZERO),
            }
        })?;
        Ok((times, peak))
    }

    pub(super) fn loads(&self) -> Result<Times, Failure> {
        let dir = self.temp_dir.path().join(COLD);
        Times::of(LOADS, |_| {
            let started = Instant::now();
            self.load(&dir)?;
            Ok(started.elapsed())
        })
    }

    pub(super) fn chain(&self) -> Result<Chain, Failure> {
        let options = HookOptions {
            policy: PolicySource::File(self.policy.clone()),
            namespace: self.input.invocation.namespace.clone(),
            code: ModuleCode::Compiled(self.temp_dir.path().join(COLD)),
            ..HookOptions::default()
        };
        let chain = module_chain::collect(&self.found, self.temp_dir.path(), options);
        self.runtime.block_on(chain)
    }

    pub(super) fn calls(
        &self,
        chain: &Chain,
        point: HookPoint,
        calls: usize,
    ) -> Result<(Times, usize), Failure> {
        for _ in 0..WARM_UP {
            self.call(chain, point)?;
        }
        let mut peak = 0;
        let times = Times::of(calls, |_| {
            let started = Instant::now();
            peak = peak.max(self.call(chain, point)?);
            Ok(started.elapsed())
        })?;
        Ok((times, peak))
    }

    /// Calls the hook. Returns the peak of its linear memories.
    fn call(&self, chain: &Chain, point: HookPoint) -> Result<usize, Failure> {
        let VmiInput {
            invocation,
            vmi,
            xml,
            arrives: _,
            devices,
            migration,
            cloud_init,
        } = &self.input;
        let runs = self.runtime.block_on(async {
            let done = match point {
                HookPoint::PreStart => chain.pre_start(invocation, vmi).await,
                HookPoint::OnDefineDomain => {
                    let done = chain.on_define_domain(invocation, vmi, xml.clone()).await;
                    done.map(|(_, runs)| runs)
                }
                HookPoint::PreCloudInitIso => match cloud_init {
                    Ok(Some(data)) => {
                        let done = chain
                            .pre_cloud_init_iso(invocation, vmi, data.clone())
                            .await;
                        done.map(|(_, runs)| runs)
                    }
                    _ => return Err(nothing_to_measure("cloud-init data")),
                },
                HookPoint::OnAttachDevice => {
                    let Some(device) = devices.first().cloned() else {
                        return Err(nothing_to_measure("device that can be attached"));
                    };
                    let time = AttachTime::default();
                    let done = chain.on_attach_device(invocation, vmi, device, &time).await;
                    done.map(|(_, runs)| runs)
                }
                HookPoint::PreMigrationSource => {
                    let parameters = migration.clone();
                    let done = chain
                        .pre_migration_source(invocation, vmi, parameters)
                        .await;
                    done.map(|(_, runs)| runs)
                }
                HookPoint::Shutdown => Ok(chain.shutdown(invocation).await),
            };
            done.map_err(Failure::refused)
        })?;
        Ok(runs
            .iter()
            .map(|run| run.peak_memory)
            .max()
            .unwrap_or_default())
    }
}

/// The hook is called only for VMIs that have `what`.
fn nothing_to_measure(what: &str) -> Failure {
    Failure::refused(anyhow!("the VMI has no {what}: give --vmi one that has"))
}

fn input(vmi: Option<&Path>) -> Result<VmiInput, Failure> {
    let Some(path) = vmi else {
        return VmiInput::on_any_node(VMI);
    };
    let source = VmiSource {
        given: InputArgs {
            vmi: path.to_owned(),
            prepared: true,
            ..InputArgs::default()
        },
        any_node: true,
        ..VmiSource::default()
    };
    source.read()
}
