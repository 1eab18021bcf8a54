//! Measures calls of a hook at OnDefineDomain.

use std::time::{Duration, Instant};

use hook_host::record::RecordConfig;
use hook_host::{Chain, CollectConfig};

use crate::result_table::{percentile, row, us};
use crate::sample_domain_and_hooks::{MANUFACTURER, VMI, write_copies};
use crate::{Bench, config, fixture};

const CALLS: usize = 4000;
/// Fewer than [`CALLS`], because each call writes a file.
const RECORDED_CALLS: usize = 1000;
const WARM_UP_CALLS: usize = 200;

impl Bench {
    pub(crate) fn calls(&self) {
        let dir = self.base.path().join("calls");
        write_copies(&dir.join("hooks"), &self.module, 1);
        let chain = self.collect(config(&dir, 1));
        let mut times = self.time_calls(&chain, CALLS);
        let reference = "1050 us sidecar, 1100 us CEL, 6700 us shim";
        row([
            "OnDefineDomain, p50",
            &us(percentile(&mut times, 50)),
            "250 us",
            reference,
        ]);
        row([
            "OnDefineDomain, p99",
            &us(percentile(&mut times, 99)),
            "600 us",
            "",
        ]);
        // The fastest call had no other process on its processor.
        row(["  the fastest", &us(percentile(&mut times, 0)), "", ""]);
        self.call_parts();

        let record = RecordConfig {
            dir: dir.join("record"),
            secrets: false,
        };
        let recording = self.collect(CollectConfig {
            record: Some(record),
            ..config(&dir, 1)
        });
        let mut times = self.time_calls(&recording, RECORDED_CALLS);
        row([
            "the same with --hook-record, p50",
            &us(percentile(&mut times, 50)),
            "",
            "",
        ]);
    }

    fn time_calls(&self, chain: &Chain, calls: usize) -> Vec<Duration> {
        let invocation = fixture::invocation();
        let call = || async {
            let xml = self.xml.clone();
            let started = Instant::now();
            let (xml, runs) = chain.on_define_domain(&invocation, VMI, xml).await.unwrap();
            let took = started.elapsed();
            assert!(xml.contains(MANUFACTURER) && runs.len() == 1 && !runs[0].changes.is_empty());
            took
        };
        self.runtime.block_on(async {
            for _ in 0..WARM_UP_CALLS {
                call().await;
            }
            let mut times = Vec::with_capacity(calls);
            for _ in 0..calls {
                times.push(call().await);
            }
            times
        })
    }

    /// Measures the parts of a call: the instance alone, and the instance with the hook's work.
    fn call_parts(&self) {
        use hook_host::wasm::{Call, CallContext};
        let module = self.load(self.options(&self.base.path().join("parts")));
        let define = Call::OnDefineDomain {
            vmi: VMI,
            domain_xml: &self.xml,
        };
        for (name, call) in [
            ("  of it: an instance", Call::Shutdown),
            ("  of it: the instance and the hook's work", define),
        ] {
            let mut times: Vec<Duration> = (0..CALLS / 4)
                .map(|_| {
                    let called = self
                        .runtime
                        .block_on(module.call(&CallContext::default(), &call));
                    called.result.unwrap();
                    called.duration
                })
                .collect();
            row([name, &us(percentile(&mut times, 50)), "", ""]);
        }
    }
}
