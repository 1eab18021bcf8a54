//! `virt-hook bench`: what a module costs, in a launcher and as a served sidecar.

mod measured_hook;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hook_host::HookPoint;
use serde::Serialize;

use crate::grant_arguments::GrantArgs;
use crate::inputs::InstanceTypesArgs;
use crate::output::{Report, Style};
use crate::verb_failure::Failure;
use measured_hook::{MeasuredHook, ServedCost};

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
    let served = is_served.then(|| measured_hook::measure_served(&hook, point, calls));
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

pub(crate) const HELP: &str = "\
Each compilation is a separate child process, as in a launcher. A call runs the hook point on a new
instance, checks the grants, and records the changes. Through `virt-hook serve`, each call uses a new
connection, as KubeVirt does. Other load on this machine affects the result.

Examples:
  virt-hook bench smbios.wasm
  virt-hook bench smbios.wasm --vmi vmi-with-the-annotation.yaml --calls 4000 --json

Exit codes:
  0  measured
  1  the hook vetoed or failed: nothing was measured
  2  invalid command line, or an unusable file
  3  error of this machine";

/// Arguments of `virt-hook bench`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    module: PathBuf,
    /// The VMI that the hook is called for [default: a built-in one]
    #[arg(long, value_name = "FILE")]
    vmi: Option<PathBuf>,
    #[command(flatten)]
    instance_types: InstanceTypesArgs,
    #[command(flatten)]
    grants: GrantArgs,
    /// Number of calls to measure
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calls: u32,
}

/// Percentiles of durations, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LatencyPercentiles {
    count: usize,
    fastest_micros: u64,
    p50_micros: u64,
    p99_micros: u64,
    slowest_micros: u64,
}

impl LatencyPercentiles {
    /// Calls `measurement` `count` times, at least once.
    fn measure(
        count: usize,
        mut measurement: impl FnMut(usize) -> Result<Duration, Failure>,
    ) -> Result<Self, Failure> {
        let times: Result<Vec<Duration>, Failure> =
            (0..count.max(1)).map(&mut measurement).collect();
        Ok(Self::from_durations(times?))
    }

    fn from_durations(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |percentile: usize| {
            let index = (times.len().saturating_sub(1) * percentile).div_ceil(100);
            let micros = times.get(index).map_or(0, Duration::as_micros);
            u64::try_from(micros).unwrap_or(u64::MAX)
        };
        Self {
            count: times.len(),
            fastest_micros: at(0),
            p50_micros: at(50),
            p99_micros: at(99),
            slowest_micros: at(100),
        }
    }

    /// The median and the 99th percentile, formatted.
    fn p50_and_p99(&self) -> [String; 2] {
        [self.p50_micros, self.p99_micros].map(|micros| match micros {
            0..10_000 => format!("{micros} us"),
            _ => format!("{} ms", micros / 1000),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let times = LatencyPercentiles::from_durations(
            (1..=200).rev().map(Duration::from_micros).collect(),
        );
        assert_eq!(times.p50_micros, 101);
        assert_eq!((times.p99_micros, times.slowest_micros), (199, 200));
        assert_eq!(times.p50_and_p99(), ["101 us", "199 us"]);
        assert_eq!(
            LatencyPercentiles::from_durations(vec![Duration::from_secs(1)]).p50_and_p99()[0],
            "1000 ms"
        );
    }
}
