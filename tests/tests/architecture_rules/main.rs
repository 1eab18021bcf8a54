//! Tests the rules of the architecture: which crates a crate may depend on, and what its sources may contain.
#![allow(clippy::unwrap_used)]

mod architecture_literals;
mod build_profiles;
mod build_targets;
mod queues;
mod source_rules;
mod workspace_members;

use std::collections::{BTreeMap, BTreeSet};

use tests::binaries::workspace;

use workspace_members::members;

fn assert_no_dependency(member: &str, forbidden: &[&str]) {
    let members = members();
    let found: Vec<&&str> = forbidden
        .iter()
        .filter(|name| members[member].all.contains(**name))
        .collect();
    assert!(found.is_empty(), "{member} depends on {found:?}");
}

/// Crates that do no I/O.
const PURE_CRATES: [&str; 4] = [
    "hooks-sdk-domain-xml",
    "virt-launcher-domain",
    "kubevirt-api",
    "hooks-sdk-quantity",
];

/// Crates that do I/O or start processes and threads.
const IO_CRATES: [&str; 10] = [
    "tokio",
    "virt-launcher-libvirt",
    "virt",
    "virt-sys",
    "wasmtime",
    "tonic",
    "rustix",
    "cap-std",
    "tempfile",
    "hyper",
];

#[test]
fn pure_crates_do_no_io() {
    for pure in PURE_CRATES {
        assert_no_dependency(pure, &IO_CRATES);
    }
}

#[test]
fn only_hook_host_names_wasmtime() {
    for (name, member) in members() {
        let names_wasmtime = member
            .direct
            .iter()
            .any(|dependency| dependency.starts_with("wasmtime"));
        assert_eq!(names_wasmtime, name == "hook-host", "{name}");
    }
}

#[test]
fn only_the_launcher_depends_on_libvirt() {
    for (name, member) in members() {
        if member.all.contains("virt-launcher-libvirt") {
            assert_eq!(name, "virt-launcher", "{name} depends on libvirt");
        }
        if member.all.contains("virt-sys") {
            assert!(
                ["virt-launcher", "virt-launcher-libvirt"].contains(&name.as_str()),
                "{name} depends on virt-sys"
            );
        }
    }
}

/// The SDK must not depend on the version of wasmtime.
#[test]
fn the_sdk_does_not_depend_on_the_host() {
    assert_no_dependency("hooks-sdk", &["hook-host", "wasmtime", "tokio"]);
}

#[test]
fn the_monitor_has_no_large_dependencies() {
    assert_no_dependency(
        "virt-launcher-monitor",
        &[
            "tokio",
            "virt-launcher-libvirt",
            "virt-sys",
            "wasmtime",
            "tonic",
            "prost",
            "hyper",
        ],
    );
}

/// Each row of the table in ARCHITECTURE.md names all crates of the workspace on which the row's crates depend, and
/// only crates on which one of them depends.
#[test]
fn crate_table_matches_the_dependencies() {
    let members = members();
    let short = |name: &str| {
        match members.get(name) {
            Some(member) => member.directory.file_name().unwrap().to_str().unwrap(),
            None => name,
        }
        .to_owned()
    };
    let page = std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let rows = page
        .lines()
        .skip_while(|line| *line != "| crate | contents | depends on |");
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let mut checked = BTreeSet::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let (path, listed) = (
            cells[1].trim_matches(['`', '*', '/']),
            cells[cells.len() - 2],
        );
        let directory = workspace().join(path);
        let row_members = members.iter();
        let row_members =
            row_members.filter(|(_, member)| member.directory.starts_with(&directory));
        let row_members: BTreeMap<_, _> = row_members.collect();
        assert!(!row_members.is_empty(), "{path} has no crate");
        checked.extend(row_members.keys().copied());
        let listed: BTreeSet<_> = match listed {
            "everything" => continue,
            "nothing" => BTreeSet::new(),
            listed => listed.split(", ").collect(),
        };
        let listed: BTreeSet<_> = listed
            .into_iter()
            .map(|name| name.split(' ').next().unwrap().to_owned())
            .collect();
        let direct = row_members.values().flat_map(|member| &member.direct);
        let direct: BTreeSet<_> = direct
            .filter(|name| !row_members.contains_key(name))
            .collect();
        let of_workspace = direct.iter().filter(|name| members.contains_key(**name));
        let of_workspace: BTreeSet<_> = of_workspace.map(|name| short(name)).collect();
        let all: BTreeSet<_> = direct.iter().map(|name| short(name)).collect();
        let missing: Vec<_> = of_workspace.difference(&listed).collect();
        assert!(missing.is_empty(), "{path} also depends on {missing:?}");
        let unexpected: Vec<_> = listed.difference(&all).collect();
        assert!(
            unexpected.is_empty(),
            "{path} does not depend on {unexpected:?}"
        );
    }
    let all: BTreeSet<_> = members.keys().collect();
    let missing: Vec<_> = all.difference(&checked).collect();
    assert!(missing.is_empty(), "the table has no row for {missing:?}");
}
