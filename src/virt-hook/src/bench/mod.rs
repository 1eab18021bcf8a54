//! `virt-hook bench`: what a module costs, in a launcher and as a served sidecar.

mod served;
mod times;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;
use hook_host::wasm::Code;
use hook_host::{Chain, HookPoint, PolicySource};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::compiling;
use crate::failure::Failure;
use crate::hooks::runtime;
use crate::inputs::{Given, Source, Subject};
use crate::modules::{self, Found, Terms};
use crate::output::{Report, Style};
use served::Served;
use times::Times;

pub(crate) const HELP: &str = "\
Every compilation is a child of its own, as in a launcher. A call is the hook point on a fresh
instance: grants checked, changes recorded. Served, a call is a connection of its own to
`virt-hook serve`, as KubeVirt makes it. What is measured is this machine, as busy as it is.

Examples:
  virt-hook bench smbios.wasm
  virt-hook bench smbios.wasm --vmi vmi-with-the-annotation.yaml --calls 4000 --json

Exit codes:
  0  measured
  1  the hook refused or failed, so there is nothing to measure
  2  the command line, or a file that it names, cannot be used
  3  this machine could not do it";

const WARM_UP: usize = 20;
const COMPILATIONS: usize = 5;
const LOADS: usize = 21;
/// A compilation that takes longer is measured twice only.
const LONG: Duration = Duration::from_secs(5);
/// Where the first compilation is kept.
const COLD: &str = "cold";
/// A VMI of everyday size.
const VMI: &str = include_str!("../check/spread/linux.yaml");

/// What `bench` is given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    module: PathBuf,
    /// The VMI that the hook is called for; a built-in one when left out
    #[arg(long, value_name = "FILE")]
    vmi: Option<PathBuf>,
    /// The operator's policy; without one, the hook is granted what it wishes for
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// How many calls are measured
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calls: u32,
}

/// What it costs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Benched {
    sha256: String,
    bytes: u64,
    hook_point: &'static str,
    compile: Times,
    /// The most that any of the compile children had, in bytes.
    compile_peak_memory: Option<u64>,
    /// What was compiled before, engine included.
    load: Times,
    /// A fresh call in this process.
    in_process: Times,
    /// Peak of the hook's own memories in a call, in bytes.
    call_peak_memory: usize,
    /// The same through `virt-hook serve`; none for hook points that no sidecar has.
    served: Option<Served>,
}

/// Measures one thing after the other.
pub(crate) fn run(arguments: &Arguments) -> Result<Benched, Failure> {
    let bench = Bench::new(arguments)?;
    let calls = arguments.calls as usize;
    let (compile, compile_peak_memory) = bench.compilations()?;
    let load = bench.loads()?;
    let chain = bench.chain()?;
    let point = bench.point(&chain)?;
    let (in_process, call_peak_memory) = bench.calls(&chain, point, calls)?;
    let is_served = matches!(
        point,
        HookPoint::OnDefineDomain | HookPoint::PreCloudInitIso
    );
    let served = is_served.then(|| served::measure(&bench, point, calls));
    Ok(Benched {
        sha256: bench.sha256,
        bytes: bench.bytes,
        hook_point: point.name(),
        compile,
        compile_peak_memory,
        load,
        in_process,
        call_peak_memory,
        served: served.transpose()?,
    })
}

/// What is measured, and on what.
struct Bench {
    runtime: Runtime,
    found: Vec<Found>,
    place: tempfile::TempDir,
    policy: PathBuf,
    subject: Subject,
    sha256: String,
    bytes: u64,
    /// The compilation of which the artifact is in [`COLD`].
    first: Code,
}

impl Bench {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let path = &arguments.module;
        let bytes = modules::size(path).map_err(Failure::Usage)?;
        let place = tempfile::tempdir()
            .context("making a temporary directory")
            .map_err(Failure::Machine)?;
        let runtime = runtime()?;
        let module = runtime.block_on(modules::load(path, &place.path().join(COLD)));
        let module = module.map_err(Failure::Machine)?;
        let module = module.map_err(|error| Failure::Usage(compiling::explain(error)))?;
        let policy = match &arguments.policy {
            Some(policy) => policy.clone(),
            None => {
                modules::granting(module.description(), place.path()).map_err(Failure::Machine)?
            }
        };
        Ok(Self {
            found: modules::find(std::slice::from_ref(path)).map_err(Failure::Usage)?,
            subject: subject(arguments.vmi.as_deref())?,
            sha256: module.digest().to_owned(),
            first: module.code().clone(),
            runtime,
            place,
            policy,
            bytes,
        })
    }

    /// Where it is called, as its hook.yaml leaves it: where most is done first.
    fn point(&self, chain: &Chain) -> Result<HookPoint, Failure> {
        let infos = chain.hooks();
        let points = [
            HookPoint::OnDefineDomain,
            HookPoint::PreCloudInitIso,
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

    fn module(&self) -> &Path {
        &self.found[0].module
    }

    fn load(&self, dir: &Path) -> Result<Code, Failure> {
        let loaded = self.runtime.block_on(modules::load(self.module(), dir));
        let loaded = loaded.map_err(Failure::Machine)?;
        Ok(loaded.map_err(Failure::machine)?.code().clone())
    }

    fn compilations(&self) -> Result<(Times, Option<u64>), Failure> {
        let mut peak = None;
        let count = match self.first {
            Code::Compiled { took, .. } if took > LONG => 2,
            _ => COMPILATIONS,
        };
        let times = Times::of(count, |number| {
            let code = match number {
                0 => self.first.clone(),
                _ => self.load(&self.place.path().join(format!("cold-{number}")))?,
            };
            match code {
                Code::Compiled { took, peak_memory } => {
                    peak = peak.max(peak_memory);
                    Ok(took)
                }
                // A directory of its own holds nothing.
                Code::Kept | Code::Baked { .. } => Ok(Duration::ZERO),
            }
        })?;
        Ok((times, peak))
    }

    fn loads(&self) -> Result<Times, Failure> {
        let dir = self.place.path().join(COLD);
        Times::of(LOADS, |_| {
            let started = Instant::now();
            self.load(&dir)?;
            Ok(started.elapsed())
        })
    }

    fn chain(&self) -> Result<Chain, Failure> {
        let terms = Terms {
            policy: PolicySource::File(self.policy.clone()),
            namespace: self.subject.invocation.namespace.clone(),
            artifacts: Some(self.place.path().join(COLD)),
            ..Terms::default()
        };
        let chain = modules::collect(&self.found, self.place.path(), terms);
        self.runtime.block_on(chain).map_err(Failure::Usage)
    }

    fn calls(
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

    /// Gives the peak of the hook's memories.
    fn call(&self, chain: &Chain, point: HookPoint) -> Result<usize, Failure> {
        let Subject {
            invocation,
            vmi,
            xml,
            cloud_init,
        } = &self.subject;
        let runs = self.runtime.block_on(async {
            match point {
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
                    _ => Ok(Vec::new()),
                },
                HookPoint::Shutdown => Ok(chain.shutdown(invocation).await),
            }
        });
        let runs = runs.map_err(Failure::refused)?;
        if runs.is_empty() {
            let reason = "the VMI has no cloud-init data: give --vmi one that has";
            return Err(Failure::refused(anyhow!(reason)));
        }
        Ok(runs
            .iter()
            .map(|run| run.peak_memory)
            .max()
            .unwrap_or_default())
    }
}

fn subject(vmi: Option<&Path>) -> Result<Subject, Failure> {
    let Some(path) = vmi else {
        return Subject::anywhere(VMI);
    };
    let source = Source {
        given: Given {
            vmi: path.to_owned(),
            prepared: true,
            ..Given::default()
        },
        any_node: true,
        ..Source::default()
    };
    source.read()
}

impl Report for Benched {
    fn text(&self, style: Style) -> String {
        let memory = |bytes: Option<u64>| match bytes {
            Some(bytes) => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
            None => "-".to_owned(),
        };
        let served = self.served.as_ref();
        let of = |times: Option<&Times>| times.map_or(["-".into(), "-".into()], Times::shown);
        let [p50, p99] = of(Some(&self.in_process));
        let [served_p50, served_p99] = of(served.map(|served| &served.calls));
        let [compile, slowest] = of(Some(&self.compile));
        let [load, load_p99] = of(Some(&self.load));
        let rss = memory(served.map(|served| served.idle_memory));
        let ready = served.map_or("-".into(), |served| format!("{} ms", served.ready_millis));
        let rows = [
            ["", "in process", "served"].map(str::to_owned),
            ["compile, p50".into(), compile, "-".into()],
            ["compile, slowest".into(), slowest, "-".into()],
            [
                "compile, peak memory".into(),
                memory(self.compile_peak_memory),
                "-".into(),
            ],
            ["load of what is compiled, p50".into(), load, "-".into()],
            ["load, p99".into(), load_p99, "-".into()],
            [format!("{}, p50", self.hook_point), p50, served_p50],
            [format!("{}, p99", self.hook_point), p99, served_p99],
            [
                "memory of a call".into(),
                memory(Some(self.call_peak_memory as u64)),
                "-".into(),
            ],
            ["ready after".into(), "-".into(), ready],
            ["memory when idle".into(), "-".into(), rss],
        ];
        let mut text = format!("{} ({} bytes)\n", style.strong(&self.sha256), self.bytes);
        for [what, here, there] in rows {
            text += &format!("{what:<32} {here:>12} {there:>12}\n");
        }
        text
    }
}
