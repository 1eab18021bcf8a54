//! Validates the domains of the examples with libvirt's RELAX NG schema.

use std::fs;
use std::path::Path;
use std::process::Command;

use hooks_sdk::Domain;
use tests::not_tested::{Missing, not_tested};

use crate::page_blocks::{page, pages};

const SCHEMA: &str = "/usr/share/libvirt/schemas/domain.rng";
/// The elements that every domain must have, and that the pages omit.
const REQUIRED_ELEMENTS: [(&str, &str); 3] = [("name", "vm"), ("memory", "1"), ("os/type", "hvm")];

/// Checks that each domain is valid, where xmllint and the schema are installed.
fn check_all() {
    let temp_dir = tempfile::tempdir().unwrap();
    let mut xmllint = Command::new("xmllint");
    xmllint.args(["--noout", "--relaxng", SCHEMA]);
    for path in pages() {
        for block in page(&path).blocks {
            if block.is("xml", "after") {
                let name = format!("{}:{}", path.replace('/', ":"), block.line);
                let file = temp_dir.path().join(name);
                fs::write(&file, with_required_elements(&block.text)).unwrap();
                xmllint.arg(file);
            }
        }
    }
    assert!(
        xmllint.get_args().count() > 8,
        "the examples show no domains"
    );
    match xmllint.output() {
        Ok(output) if Path::new(SCHEMA).is_file() => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{stderr}");
        }
        _ => not_tested(
            "the pages' domains",
            Missing::Installable("xmllint or libvirt's schemas"),
        )
        .unwrap(),
    }
}

/// Adds the elements that every domain must have. Removes empty sysinfo tables, which KubeVirt writes and libvirt
/// accepts, but the schema refuses.
fn with_required_elements(xml: &str) -> String {
    let mut domain = Domain::parse(xml).unwrap();
    for (path, text) in REQUIRED_ELEMENTS {
        if domain.value(path).unwrap().is_none() {
            domain.set(path, text).unwrap();
        }
    }
    if let Ok(Some(sysinfo)) = domain.find_mut("sysinfo") {
        sysinfo.remove_children(|table| table.children().next().is_none());
    }
    domain.render()
}

#[test]
fn example_domains_are_valid_by_libvirts_schema() {
    check_all();
}
