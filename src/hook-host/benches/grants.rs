//! Measures the check of a hook's changes against its grants.
//!
//! `cargo bench -p hook-host --bench grants`

#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "../../domain-xml/benches/bench_table/mod.rs"]
mod bench_table;
#[path = "../../domain-xml/benches/windows_vm_xml/mod.rs"]
mod windows_vm_xml;

use std::fmt::Write;

use bench_table::MEDIAN;
use domain_xml::Document;
use domain_xml::host::{Change, diff};
use hook_host::ConditionedPath;
use hook_host::policy::permission::{Checker, Permission};
use windows_vm_xml::{smbios, windows_vm};

fn main() {
    for disks in [36, 200] {
        report_typical(disks);
    }
    for elements in [3_125, 6_250, 12_500, 25_000, 50_000] {
        report_worst_case(elements);
    }
}

/// Measures the most wishes and elements that a hook may have: 256 wishes of 8 predicates each, of which only the last
/// predicate distinguishes the disks.
fn report_worst_case(elements: usize) {
    let patterns = wishes();
    let empty = Document::parse("<domain><devices/></domain>").unwrap();
    let filled = Document::parse(&disks(elements, "native")).unwrap();
    let retuned = Document::parse(&disks(elements, "threads")).unwrap();
    println!("\n{elements} elements, 256 wishes of 8 predicates");
    for (what, before, after) in [
        ("diff and grants of new elements", &empty, &filled),
        ("diff and grants of edited elements", &filled, &retuned),
    ] {
        let time = MEDIAN.row(what, || {
            let changes = diff(before, after);
            check(&patterns, &changes, before, after);
        });
        let nanos = time.as_secs_f64() * 1e9 / elements as f64;
        println!("{:<46} {nanos:>9.1} ns per element", "");
    }
}

fn wishes() -> Vec<ConditionedPath> {
    let shared = "[@type='block'][@device='disk'][target/@bus='virtio'][target][driver/@name='qemu']\
        [driver/@cache='none'][driver]";
    let of_disk = |n| format!("/domain/devices/disk{shared}[target/@dev='vd{n}']/**");
    let last = format!("/domain/devices/disk{shared}[driver/@io]/**");
    let all = (0..255).map(of_disk).chain([last]);
    all.map(|path| ConditionedPath::parse(&path).unwrap())
        .collect()
}

/// A domain of disks with three elements each. The driver has no `type` (the disk's format), since no wildcard grants it.
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

/// Measures the edits of ordinary hooks on a domain with this number of disks.
fn report_typical(disks: usize) {
    let xml = windows_vm(disks, "none");
    let before = Document::parse(&xml).unwrap();
    let edited = Document::parse(&smbios(&xml)).unwrap();
    let retuned = Document::parse(&windows_vm(disks, "writeback")).unwrap();
    let paths = [
        "/domain/os/smbios/**",
        "/domain/sysinfo/baseBoard/**",
        "/domain/devices/disk[target]/driver/@cache",
    ];
    let parsed = paths
        .iter()
        .map(|path| ConditionedPath::parse(path).unwrap());
    let patterns: Vec<ConditionedPath> = parsed.collect();
    println!("\ndomain XML of {} bytes", xml.len());
    for (what, after) in [
        ("grants of the smbios hook's edits", &edited),
        ("grants of all retuned disks", &retuned),
    ] {
        let changes = diff(&before, after);
        MEDIAN.row(what, || check(&patterns, &changes, &before, after));
    }
}

fn check(patterns: &[ConditionedPath], changes: &[Change], before: &Document, after: &Document) {
    let mut checker = Checker::new(patterns, before, after);
    let granted = |change| matches!(checker.permits(change), Permission::Granted { .. });
    assert!(changes.iter().all(granted) && !changes.is_empty());
}
