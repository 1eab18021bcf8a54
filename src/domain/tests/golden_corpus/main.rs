//! Runs the corpus in /tests/corpus as golden tests: VMI -> domain XML, and libvirt's XML -> Domain JSON.
//!
//! tests/corpus/known-failures.txt lists cases that are known to fail. A listed case that passes is an error.

#![allow(clippy::unwrap_used)]

mod compare_xml_and_json;
mod domain_xml_to_json;
mod vmi_to_domain_xml;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of the files in a directory with this ending, without the ending.
fn names(directory: &Path, ending: &str) -> BTreeSet<String> {
    let files = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<_> = files
        .filter_map(|file| Some(file.strip_suffix(ending)?.to_owned()))
        .collect();
    assert!(!names.is_empty(), "no {ending} in {}", directory.display());
    names
}

/// The names after `kind/` in known-failures.txt.
fn known_failures(kind: &str) -> BTreeSet<String> {
    let text = read(&corpus().join("known-failures.txt"));
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|line| line.strip_prefix(kind)?.strip_prefix('/'))
        .map(str::to_owned)
        .collect()
}

/// Runs every case. Fails if a case fails that is not a known failure, or a known failure passes or does not exist.
fn run(kind: &str, cases: &BTreeSet<String>, check: impl Fn(&str) -> Result<(), String>) {
    let known = known_failures(kind);
    let mut problems: Vec<_> = known
        .difference(cases)
        .map(|case| format!("{kind}/{case} is a known failure but does not exist"))
        .collect();
    for case in cases {
        match (check(case), known.contains(case)) {
            (Ok(()), true) => problems.push(format!(
                "{kind}/{case} passes: take it out of known-failures.txt"
            )),
            (Err(message), false) => problems.push(format!("{kind}/{case}: {message}")),
            _ => {}
        }
    }
    assert!(
        problems.is_empty(),
        "{} problems\n{}",
        problems.len(),
        problems.join("\n")
    );
}
