//! `virt-hook bench`: what a module costs, in a launcher and as a served sidecar.

mod arguments;
mod measured_hook;
mod percentiles;
mod served_hook;

use hook_host::HookPoint;
use serde::Serialize;

use crate::output::{Report, Style};
use crate::verb_failure::Failure;
pub(crate) use arguments::{Arguments, HELP};
use measured_hook::MeasuredHook;
use percentiles::LatencyPercentiles;
use served_hook::ServedCost;

/// The measurements.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BenchReport {
    sha256: String,
    bytes: u64,
    hook_point: &'static str,
    compile: LatencyPercentiles,
    /// Peak memory of the compile children in bytes.
    compile_peak_memory: Option<u64>,
    /// Duration of loading a compiled module, including the creation of the engine.
    load: LatencyPercentiles,
    /// Duration of a call in this process.
    in_process: LatencyPercentiles,
    /// Peak of the hook's linear memories in a call, in bytes.
    call_peak_memory: usize,
    /// Cost of calls through `virt-hook serve`; `None` for hook points that sidecars do not have.
    served: Option<ServedCost>,
}

/// Runs the measurements one after the other.
pub(crate) fn run(arguments: &Arguments) -> Result<BenchReport, Failure> {
    let hook = MeasuredHook::new(arguments)?;
    let calls = arguments.calls as usize;
    let (compile, compile_peak_memory) = hook.compilations()?;
    let load = hook.loads()?;
    let chain = hook.chain()?;
    let point = hook.point(&chain)?;
    let (in_process, call_peak_memory) = hook.calls(&chain, point, calls)?;
    let is_served = matches!(
        point,
        HookPoint::OnDefineDomain | HookPoint::PreCloudInitIso
    );
    let served = is_served.then(|| served_hook::measure(&hook, point, calls));
    Ok(BenchReport {
        sha256: hook.sha256,
        bytes: hook.bytes,
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
        let formatted = |percentiles: Option<&LatencyPercentiles>| {
            percentiles.map_or(["-".into(), "-".into()], LatencyPercentiles::p50_and_p99)
        };
        let [p50, p99] = formatted(Some(&self.in_process));
        let [served_p50, served_p99] = formatted(served.map(|served| &served.calls));
        let [compile, slowest] = formatted(Some(&self.compile));
        let [load, load_p99] = formatted(Some(&self.load));
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
            ["load of the artifact, p50".into(), load, "-".into()],
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
        for [title, in_process, served] in rows {
            text += &format!("{title:<32} {in_process:>12} {served:>12}\n");
        }
        text
    }
}
