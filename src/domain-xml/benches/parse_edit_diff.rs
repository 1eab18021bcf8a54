//! Time and allocations of parsing, editing, comparing and dropping a domain.
//!
//! `cargo bench -p hooks-sdk-domain-xml` prints a table; nothing is asserted. The domains are KubeVirt's
//! Windows machine with as many disks as make 15 KB, and with 200 disks.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod bench_table;
mod windows_vm_xml;

use bench_table::MEDIAN;
use domain_xml::host::{Change, apply, diff};
use domain_xml::{Document, PathPattern};
use windows_vm_xml::{smbios, windows_vm};

fn main() {
    for disks in [36, 200] {
        Case::new(disks).report();
    }
    crowd();
}

/// The worst case of pairing: two lists of children that have no keys and no equal content.
fn crowd() {
    let list = |value: &str| {
        let children = format!("<x name='{value}'/>").repeat(CROWD);
        Document::parse(&["<domain>", &children, "</domain>"].concat()).unwrap()
    };
    let (before, after) = (list("a"), list("b"));
    println!("\n{CROWD} children of one name");
    MEDIAN.row("diff with others", || diff(&before, &after));
}

const CROWD: usize = 50_000;

/// A domain, what a hook made of it, and one whose disks all changed.
struct Case {
    xml: String,
    before: Document,
    edited: Document,
    retuned: Document,
}

impl Case {
    fn new(disks: usize) -> Case {
        let xml = windows_vm(disks, "none");
        let before = Document::parse(&xml).unwrap();
        let edited = Document::parse(&smbios(&xml)).unwrap();
        let retuned = Document::parse(&windows_vm(disks, "writeback")).unwrap();
        Case {
            xml,
            before,
            edited,
            retuned,
        }
    }

    fn report(&self) {
        println!("\ndomain XML of {} bytes", self.xml.len());
        MEDIAN.row("parse, drop", || Document::parse(&self.xml).unwrap());
        MEDIAN.row("parse, the smbios hook's edits, render, drop", || {
            smbios(&self.xml)
        });
        MEDIAN.row("render what was not edited", || self.before.render());
        MEDIAN.row("look at every element, drop", || {
            let every = "**/@dev".parse::<PathPattern>().unwrap();
            let document = Document::parse(&self.xml).unwrap();
            every.find_all(document.root()).len()
        });
        MEDIAN.row("diff with itself", || diff(&self.before, &self.before));
        MEDIAN.row("diff with what the smbios hook made", || self.edits());
        MEDIAN.row("diff with all disks retuned", || self.retunings());
        let retunings = self.retunings();
        MEDIAN.row("apply all retuned disks", || {
            apply(&retunings, &self.before).unwrap()
        });
    }

    fn edits(&self) -> Vec<Change> {
        diff(&self.before, &self.edited)
    }

    fn retunings(&self) -> Vec<Change> {
        diff(&self.before, &self.retuned)
    }
}
