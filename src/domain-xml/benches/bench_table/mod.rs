//! The domains that the benchmarks work on, and the rows of their tables.
// Each benchmark uses a part of it.
#![allow(dead_code)]

use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use domain_xml::Document;

/// How a time is measured.
pub(crate) struct Sampling {
    samples: usize,
    /// How long a sample takes, so that the clock does not count.
    length: Duration,
    /// Of sorted times.
    pick: fn(&[Duration]) -> Duration,
}

pub(crate) const MEDIAN: Sampling = Sampling {
    samples: 101,
    length: Duration::from_millis(2),
    pick: |times| times[times.len() / 2],
};

/// Other load on the machine does not count.
pub(crate) const FASTEST: Sampling = Sampling {
    samples: 401,
    length: Duration::from_millis(4),
    pick: |times| times[0],
};

impl Sampling {
    /// Prints time and allocations of `work`, and returns the time.
    pub(crate) fn row<T>(&self, what: &str, work: impl Fn() -> T) -> Duration {
        let work = || drop(black_box(work()));
        let allocations = allocation_counter::measure(work);
        let time = self.time(work);
        println!(
            "{what:<46} {:>9.1} us {:>7} allocations {:>9} bytes",
            time.as_secs_f64() * 1e6,
            allocations.count_total,
            allocations.bytes_total,
        );
        time
    }

    fn time(&self, work: impl Fn()) -> Duration {
        let start = Instant::now();
        work();
        let once = start.elapsed().as_nanos().max(1);
        let batch = u32::try_from(self.length.as_nanos() / once).unwrap_or(1);
        let batch = batch.max(1);
        let sample = |_| {
            let start = Instant::now();
            for _ in 0..batch {
                work();
            }
            start.elapsed() / batch
        };
        let mut times: Vec<_> = (0..self.samples).map(sample).collect();
        times.sort_unstable();
        (self.pick)(&times)
    }
}

/// KubeVirt's Windows machine with further disks: 36 make 15 KB.
pub(crate) fn windows_vm(disks: usize, cache: &str) -> String {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/vmi-to-domain-xml");
    let xml = fs::read_to_string(corpus.join("typical-windows.xml")).unwrap();
    let (before, after) = xml.split_at(xml.find("\t\t<input ").unwrap());
    let mut added = String::new();
    for number in 0..disks {
        write!(
            added,
            "\t\t<disk device=\"disk\" type=\"block\" model=\"virtio-non-transitional\">\n\
             \t\t\t<source dev=\"/dev/data{number}\"></source>\n\
             \t\t\t<target bus=\"virtio\" dev=\"vd{number}\"></target>\n\
             \t\t\t<serial>serial-{number}</serial>\n\
             \t\t\t<driver cache=\"{cache}\" error_policy=\"stop\" name=\"qemu\" type=\"raw\" \
             io=\"native\" discard=\"unmap\"></driver>\n\
             \t\t\t<alias name=\"ua-data{number}\"></alias>\n\
             \t\t</disk>\n"
        )
        .unwrap();
    }
    [before, &added, after].concat()
}

/// The edits of the smbios hook.
pub(crate) fn smbios(xml: &str) -> String {
    let mut domain = Document::parse(xml).unwrap();
    let root = domain.root_mut();
    root.set("os/smbios/@mode", "sysinfo").unwrap();
    let manufacturer = "sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']";
    root.set(manufacturer, "Radical Edward").unwrap();
    domain.render()
}
