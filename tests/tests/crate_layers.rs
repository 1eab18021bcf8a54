//! The layer rule, checked on Cargo's metadata: a crate can only use its dependencies.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::binaries::workspace;

/// A workspace member: its directory, and its dependencies without dev-dependencies.
struct Member {
    directory: PathBuf,
    direct: BTreeSet<String>,
    all: BTreeSet<String>,
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        // Without this cargo downloads what other systems need too.
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Whether a dependency is a normal or build dependency, not only a dev-dependency.
fn is_normal(edge: &Value) -> bool {
    list(&edge["dep_kinds"])
        .iter()
        .any(|kind| kind["kind"] != "dev")
}

fn members() -> BTreeMap<String, Member> {
    let metadata = metadata();
    let packages: BTreeMap<String, &Value> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let edges: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let needed = list(&node["deps"])
                .iter()
                .filter(|edge| is_normal(edge))
                .map(|edge| text(&edge["pkg"]));
            (text(&node["id"]), needed.collect())
        })
        .collect();
    let name = |id: &String| text(&packages[id]["name"]);
    list(&metadata["workspace_members"])
        .iter()
        .map(|id| {
            let id = text(id);
            let manifest = PathBuf::from(text(&packages[&id]["manifest_path"]));
            let mut reached = BTreeSet::new();
            let mut open = vec![id.clone()];
            while let Some(next) = open.pop() {
                open.extend(
                    edges[&next]
                        .iter()
                        .filter(|needed| reached.insert((*needed).clone()))
                        .cloned(),
                );
            }
            let member = Member {
                directory: manifest.parent().unwrap().to_owned(),
                direct: edges[&id].iter().map(&name).collect(),
                all: reached.iter().map(&name).collect(),
            };
            (name(&id), member)
        })
        .collect()
}

fn none_of(member: &str, forbidden: &[&str]) {
    let members = members();
    let found: Vec<&&str> = forbidden
        .iter()
        .filter(|name| members[member].all.contains(**name))
        .collect();
    assert!(found.is_empty(), "{member} depends on {found:?}");
}

/// Crates that only compute.
const PURE: [&str; 4] = [
    "hooks-sdk-domain-xml",
    "virt-launcher-domain",
    "kubevirt-api",
    "hooks-sdk-quantity",
];

/// Crates that do I/O or start processes and threads.
const OUTSIDE: [&str; 10] = [
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
    for pure in PURE {
        none_of(pure, &OUTSIDE);
    }
}

#[test]
fn the_pure_crates_use_no_file_system() {
    for (name, member) in members() {
        if PURE.contains(&name.as_str()) {
            for (file, source) in sources(&member.directory.join("src")) {
                for word in [
                    "std::fs",
                    "std::net",
                    "std::process",
                    "std::thread",
                    "std::env",
                ] {
                    assert!(!source.contains(word), "{} names {word}", file.display());
                }
            }
        }
    }
}

#[test]
fn only_hook_host_names_wasmtime() {
    for (name, member) in members() {
        let named = member
            .direct
            .iter()
            .any(|dependency| dependency.starts_with("wasmtime"));
        assert_eq!(named, name == "hook-host", "{name}");
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

/// So that wasmtime's version is not the SDK's.
#[test]
fn the_sdk_does_not_depend_on_the_host() {
    none_of("hooks-sdk", &["hook-host", "wasmtime", "tokio"]);
}

#[test]
fn the_monitor_has_no_large_dependencies() {
    none_of(
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

/// Each row names all crates of the workspace on which the row's crates depend, and no crate on which none of them depends.
#[test]
fn the_table_of_crates_is_true() {
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
        let own = members.iter();
        let own = own.filter(|(_, member)| member.directory.starts_with(&directory));
        let own: BTreeMap<_, _> = own.collect();
        assert!(!own.is_empty(), "{path} has no crate");
        checked.extend(own.keys().copied());
        let listed: BTreeSet<_> = match listed {
            "everything" => continue,
            "nothing" => BTreeSet::new(),
            listed => listed.split(", ").collect(),
        };
        let listed: BTreeSet<_> = listed
            .into_iter()
            .map(|name| name.split(' ').next().unwrap().to_owned())
            .collect();
        let direct = own.values().flat_map(|member| &member.direct);
        let direct: BTreeSet<_> = direct.filter(|name| !own.contains_key(name)).collect();
        let of_workspace = direct.iter().filter(|name| members.contains_key(**name));
        let of_workspace: BTreeSet<_> = of_workspace.map(|name| short(name)).collect();
        let all: BTreeSet<_> = direct.iter().map(|name| short(name)).collect();
        let missing: Vec<_> = of_workspace.difference(&listed).collect();
        assert!(missing.is_empty(), "{path} also depends on {missing:?}");
        let wrong: Vec<_> = listed.difference(&all).collect();
        assert!(wrong.is_empty(), "{path} does not depend on {wrong:?}");
    }
    let all: BTreeSet<_> = members.keys().collect();
    let missing: Vec<_> = all.difference(&checked).collect();
    assert!(missing.is_empty(), "the table has no row for {missing:?}");
}

#[test]
fn unsafe_code_is_only_in_libvirt_and_the_artifact_load() {
    for (name, member) in members() {
        if name == "virt-launcher-libvirt" {
            continue;
        }
        for (file, source) in sources(&member.directory.join("src")) {
            let uses = source.lines().any(|line| {
                let code = line.split("//").next().unwrap_or_default();
                code.contains("unsafe {")
                    || code.contains("unsafe fn")
                    || code.contains("unsafe impl")
            });
            let artifact_load =
                name == "hook-host" && file.components().any(|part| part.as_os_str() == "wasm");
            assert!(!uses || artifact_load, "{} has unsafe code", file.display());
        }
    }
}

/// A caller cannot tell the cases of a `String` apart.
#[test]
fn public_functions_of_libraries_have_typed_errors() {
    let mut found = Vec::new();
    for (_, member) in members() {
        let src = member.directory.join("src");
        // The tests' crate has only test code.
        if !src.join("lib.rs").is_file() || member.directory.ends_with("tests") {
            continue;
        }
        for (file, source) in sources(&src) {
            found.extend(untyped_errors(&source).map(|line| format!("{}: {line}", file.display())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn untyped_errors_are_found() {
    let source = "pub fn a(\n    text: &str,\n) -> Result<Vec<u8>, String> {\n}\npub fn b() -> Result<String, E> {\n}\n\
        fn c() -> Result<u8, String> {\n}\ntype Err = String;\npub async fn d() -> Result<(), String>;\n";
    let found: Vec<_> = untyped_errors(source).collect();
    assert_eq!(found, ["a", "d", "type Err = String"]);
}

/// The names of public functions whose error is a `String`, and associated error types that are one.
fn untyped_errors(source: &str) -> impl Iterator<Item = String> {
    let mut starts: Vec<_> = ["pub fn ", "pub async fn ", "pub const fn "]
        .iter()
        .flat_map(|start| source.match_indices(start))
        .collect();
    starts.sort_unstable();
    let functions = starts.into_iter().filter_map(|(at, start)| {
        let rest = &source[at + start.len()..];
        let signature = &rest[..rest.find(['{', ';']).unwrap_or(rest.len())];
        let (_, result) = signature.rsplit_once("->")?;
        let result: String = result.split_whitespace().collect();
        let name = signature.split(['(', '<']).next()?;
        (result.starts_with("Result<") && result.ends_with(",String>")).then(|| name.to_owned())
    });
    let types = ["type Err = String", "type Error = String"]
        .into_iter()
        .filter(|text| source.contains(&format!("{text};")))
        .map(str::to_owned);
    let all: Vec<_> = functions.chain(types).collect();
    all.into_iter()
}

#[test]
fn every_example_and_every_hook_for_tests_has_tests() {
    let mut checked = 0;
    for parent in ["examples-hooks", "tests/rust-hooks"] {
        let Ok(entries) = std::fs::read_dir(workspace().join(parent)) else {
            continue;
        };
        for directory in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if directory.join("Cargo.toml").is_file() {
                checked += 1;
                assert!(
                    is_tested(&directory),
                    "no test names {}",
                    directory.display()
                );
            }
        }
    }
    assert!(checked >= 2, "the examples have moved");
}

/// An example has tests in its own crate; a hook for tests is named in a test elsewhere.
fn is_tested(directory: &Path) -> bool {
    let marks = ["#[test]", "#[hooks_sdk_testing::test("];
    let own = sources(directory)
        .iter()
        .any(|(_, source)| marks.iter().any(|mark| source.contains(mark)));
    let name = directory
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let spellings = [
        format!("\"{name}"),
        format!("\"{}", name.replace('-', "_")),
        format!("{}_", name.replace('-', "_")),
    ];
    let tests = [
        workspace().join("tests/tests"),
        workspace().join("src/hook-host/tests"),
        workspace().join("src/virt-hook/tests"),
    ];
    let named = || {
        let all = tests.iter().flat_map(|tests| sources(tests));
        all.into_iter()
            .any(|(_, source)| spellings.iter().any(|spelling| source.contains(spelling)))
    };
    own || (directory.starts_with(workspace().join("tests/rust-hooks")) && named())
}

/// All Rust sources below a directory.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}
