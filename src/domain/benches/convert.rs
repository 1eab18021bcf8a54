//! Benchmark of a conversion from VMI JSON and options to domain XML: time and allocations.
//!
//! `cargo bench -p virt-launcher-domain` prints a table; nothing is asserted. KubeVirt's own converter takes
//! 130 to 230 us for the two typical VMIs on comparable hardware.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use domain::convert::convert;
use domain::domain_spec_to_xml::render;
use domain::host_facts::HostFacts;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use serde_json::{Value, json};

/// The number of samples, of which the median is printed.
const SAMPLES: usize = 61;
/// The number of conversions in a sample.
const CONVERSIONS_PER_SAMPLE: u32 = 50;

/// The inputs of one conversion, as the launcher receives them.
struct Case {
    name: String,
    vmi: Vec<u8>,
    options: String,
    host: HostFacts,
}

impl Case {
    fn from_corpus(name: &str) -> Self {
        let directory =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/vmi-to-domain-xml");
        let read = |file: &str| fs::read_to_string(directory.join(file)).unwrap();
        Self {
            name: name.to_owned(),
            vmi: read(&format!("{name}.vmi.json")).into_bytes(),
            options: read(&format!("{name}.options.json")),
            host: serde_json::from_str(&read("host.json")).unwrap(),
        }
    }

    /// The same VMI with this number of additional data disks.
    fn with_disks(&self, count: usize) -> Self {
        let mut vmi: Value = serde_json::from_slice(&self.vmi).unwrap();
        for disk in 0..count {
            let name = format!("data{disk}");
            push(
                &mut vmi["spec"]["domain"]["devices"]["disks"],
                json!({"name": name, "disk": {"bus": "virtio"}, "serial": "s"}),
            );
            push(
                &mut vmi["spec"]["volumes"],
                json!({"name": name, "persistentVolumeClaim": {"claimName": name}}),
            );
        }
        Self {
            name: format!("{} + {count} disks", self.name),
            vmi: vmi.to_string().into_bytes(),
            options: self.options.clone(),
            host: self.host.clone(),
        }
    }

    fn run(&self) -> String {
        let vmi = Vmi::from_json(&self.vmi).unwrap();
        let options: Options = serde_json::from_str(&self.options).unwrap();
        render(&convert(&vmi, &options, &self.host).unwrap())
    }

    /// The median time of one conversion.
    fn median_time(&self) -> Duration {
        let sample = |_| {
            let start = Instant::now();
            for _ in 0..CONVERSIONS_PER_SAMPLE {
                black_box(black_box(self).run());
            }
            start.elapsed() / CONVERSIONS_PER_SAMPLE
        };
        let mut samples: Vec<_> = (0..SAMPLES).map(sample).collect();
        samples.sort_unstable();
        samples[SAMPLES / 2]
    }

    fn report(&self) {
        let allocations = allocation_counter::measure(|| drop(black_box(self.run())));
        println!(
            "{:<32} {:>9.1} us {:>7} allocations {:>9} bytes {:>9} peak",
            self.name,
            self.median_time().as_secs_f64() * 1e6,
            allocations.count_total,
            allocations.bytes_total,
            allocations.bytes_max,
        );
    }
}

fn push(list: &mut Value, element: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(element),
        None => *list = json!([element]),
    }
}

fn main() {
    let fedora = Case::from_corpus("typical-fedora");
    // Warms up caches before the first report.
    fedora.median_time();
    fedora.report();
    Case::from_corpus("typical-windows").report();
    for disks in [25, 50, 100, 200] {
        fedora.with_disks(disks).report();
    }
}
