//! `virt-hook bench`: what a module costs, in a launcher and as a served sidecar.

mod arguments;
mod hook_bench;
mod percentiles;
mod served_hook;

use hook_host::HookPoint;
use serde::Serialize;

use crate::exit_codes::Failure;
use crate::output::{Report, Style};
pub(crate) use arguments::{Arguments, HELP};
use hook_bench::Bench;
use percentiles::Times;
use served_hook::ServedCost;

/// The measurements.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BenchReport {
    sha256: String,
    bytes: u64,
    hook_point: &'static str,
    compile: Times,
    /// Peak memory of the compile children in bytes.
    compile_peak_memory: Option<u64>,
    /// Loading of a compiled module, engine included.
    load: Times,
    /// A call in this process.
    in_process: Times,
    /// Peak of the hook's linear memories in a call, in bytes.
    call_peak_memory: usize,
    /// A call through `virt-hook serve`; none for hook points that sidecars do not have.
    served: Option<ServedCost>,
}

/// Measures one thing after the other.
pub(crate) fn run(arguments: &Arguments) -> Result<BenchReport, Failure> {
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
    let served = is_served.then(|| served_hook::measure(&bench, point, calls));
    Ok(BenchReport {
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

impl Report for BenchReport {
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
