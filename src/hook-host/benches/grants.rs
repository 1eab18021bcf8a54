//! What it costs to check the changes of a hook against its grants.
//!
//! `cargo bench -p hook-host --bench grants`

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use domain_xml::{Change, Document, PathPattern, diff};
use hook_host::policy::permission::{Checker, Permission};

/// Samples of which the median is told.
const SAMPLES: usize = 101;
/// How long a sample takes, so that the clock does not count.
const SAMPLE: Duration = Duration::from_millis(2);

fn main() {
    for disks in [36, 200] {
        report(disks);
    }
    for elements in [3_125, 6_250, 12_500, 25_000, 50_000] {
        report_hostile(elements);
    }
}

/// The most that a hook may want and return: 256 wishes of 8 predicates each, of which the last decides.
fn report_hostile(elements: usize) {
    let patterns = wishes();
    let empty = Document::parse("<domain><devices/></domain>").unwrap();
    let filled = Document::parse(&disks(elements, "native")).unwrap();
    let retuned = Document::parse(&disks(elements, "threads")).unwrap();
    println!("\n{elements} elements, 256 wishes of 8 predicates");
    for (what, before, after) in [
        ("diff and grants of new elements", &empty, &filled),
        ("diff and grants of edited elements", &filled, &retuned),
    ] {
        let time = row(what, || {
            let changes = diff(before, after);
            check(&patterns, &changes, before, after);
        });
        let nanos = time.as_secs_f64() * 1e9 / elements as f64;
        println!("{:<46} {nanos:>9.1} ns per element", "");
    }
}

fn wishes() -> Vec<PathPattern> {
    let shared = "[@type='block'][@device='disk'][target/@bus='virtio'][target][driver/@name='qemu']\
        [driver/@cache='none'][driver]";
    let one = |n| format!("/domain/devices/disk{shared}[target/@dev='vd{n}']/**");
    let last = format!("/domain/devices/disk{shared}[driver/@io]/**");
    let all = (0..255).map(one).chain([last]);
    all.map(|path| path.parse().unwrap()).collect()
}

/// Disks of three elements each. The driver's format is left out: a wildcard does not grant it.
fn disks(elements: usize, io: &str) -> String {
    let mut xml = String::from("<domain><devices>");
    for number in 0..(elements - 2) / 3 {
        write!(
            xml,
            "<disk type='block' device='disk'><target dev='vd{number}' bus='virtio'/>\
             <driver name='qemu' cache='none' io='{io}'/></disk>"
        )
        .unwrap();
    }
    xml + "</devices></domain>"
}

fn report(disks: usize) {
    let xml = domain(disks, "none");
    let before = Document::parse(&xml).unwrap();
    let edited = Document::parse(&smbios(&xml)).unwrap();
    let retuned = Document::parse(&domain(disks, "writeback")).unwrap();
    let paths = [
        "/domain/os/smbios/**",
        "/domain/sysinfo/**",
        "/domain/devices/disk[target]/driver/@cache",
    ];
    let patterns: Vec<PathPattern> = paths.iter().map(|path| path.parse().unwrap()).collect();
    println!("\ndomain XML of {} bytes", xml.len());
    for (what, after) in [
        ("grants of the smbios hook's edits", &edited),
        ("grants of all retuned disks", &retuned),
    ] {
        let changes = diff(&before, after);
        row(what, || check(&patterns, &changes, &before, after));
    }
}

fn check(patterns: &[PathPattern], changes: &[Change], before: &Document, after: &Document) {
    let mut checker = Checker::new(patterns, before, after);
    let granted = |change| matches!(checker.permits(change), Permission::Granted { .. });
    assert!(changes.iter().all(granted) && !changes.is_empty());
}

fn smbios(xml: &str) -> String {
    let mut domain = Document::parse(xml).unwrap();
    let root = domain.root_mut();
    root.set("os/smbios/@mode", "sysinfo").unwrap();
    let manufacturer = "sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']";
    root.set(manufacturer, "Radical Edward").unwrap();
    domain.render()
}

fn domain(disks: usize, cache: &str) -> String {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/convert");
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

fn row<T>(what: &str, work: impl Fn() -> T) -> Duration {
    let allocations = allocation_counter::measure(|| drop(black_box(work())));
    let time = median(|| drop(black_box(work())));
    println!(
        "{what:<46} {:>9.1} us {:>7} allocations {:>9} bytes",
        time.as_secs_f64() * 1e6,
        allocations.count_total,
        allocations.bytes_total,
    );
    time
}

fn median(work: impl Fn()) -> Duration {
    let start = Instant::now();
    work();
    let once = start.elapsed().as_nanos().max(1);
    let batch = u32::try_from(SAMPLE.as_nanos() / once).unwrap_or(1).max(1);
    let sample = |_| {
        let start = Instant::now();
        for _ in 0..batch {
            work();
        }
        start.elapsed() / batch
    };
    let mut samples: Vec<_> = (0..SAMPLES).map(sample).collect();
    samples.sort_unstable();
    samples[SAMPLES / 2]
}
