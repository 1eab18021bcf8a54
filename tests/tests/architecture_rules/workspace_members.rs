//! The members of the workspace and their dependencies, from Cargo's metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tests::binaries::workspace;

/// A workspace member. Dev-dependencies are not included.
pub(crate) struct Member {
    pub(crate) directory: PathBuf,
    /// The names of its direct dependencies.
    pub(crate) direct: BTreeSet<String>,
    /// The names of all its dependencies, including indirect ones.
    pub(crate) all: BTreeSet<String>,
}

/// A library, program or other target of a workspace member.
pub(crate) struct Target {
    /// The file with its root module.
    pub(crate) source: PathBuf,
    pub(crate) is_library: bool,
    pub(crate) is_program: bool,
    /// Whether `cargo test` builds it for its unit tests.
    pub(crate) test: bool,
    /// Whether `cargo test` looks for examples in its documentation.
    pub(crate) doctest: bool,
}

/// All targets of all members.
pub(crate) fn targets() -> Vec<Target> {
    let metadata = metadata();
    let members: BTreeSet<String> = list(&metadata["workspace_members"])
        .iter()
        .map(text)
        .collect();
    let packages = list(&metadata["packages"]).iter();
    let targets = packages
        .filter(|package| members.contains(&text(&package["id"])))
        .flat_map(|package| list(&package["targets"]));
    targets
        .map(|target| {
            let kinds: Vec<String> = list(&target["kind"]).iter().map(text).collect();
            let is_of = |names: &[&str]| kinds.iter().any(|kind| names.contains(&kind.as_str()));
            Target {
                source: PathBuf::from(text(&target["src_path"])),
                is_library: is_of(&["lib", "rlib", "cdylib", "proc-macro"]),
                is_program: is_of(&["bin"]),
                test: target["test"] == true,
                doctest: target["doctest"] == true,
            }
        })
        .collect()
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        // Otherwise cargo also downloads the dependencies for other systems.
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

/// All members of the workspace, by name.
pub(crate) fn members() -> BTreeMap<String, Member> {
    let metadata = metadata();
    let packages: BTreeMap<String, &Value> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let edges: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let dependencies = list(&node["deps"])
                .iter()
                .filter(|edge| is_normal(edge))
                .map(|edge| text(&edge["pkg"]));
            (text(&node["id"]), dependencies.collect())
        })
        .collect();
    let name = |id: &String| text(&packages[id]["name"]);
    list(&metadata["workspace_members"])
        .iter()
        .map(|id| {
            let id = text(id);
            let manifest = PathBuf::from(text(&packages[&id]["manifest_path"]));
            let mut reachable = BTreeSet::new();
            let mut queue = vec![id.clone()];
            while let Some(next) = queue.pop() {
                queue.extend(
                    edges[&next]
                        .iter()
                        .filter(|dependencies| reachable.insert((*dependencies).clone()))
                        .cloned(),
                );
            }
            let member = Member {
                directory: manifest.parent().unwrap().to_owned(),
                direct: edges[&id].iter().map(&name).collect(),
                all: reachable.iter().map(&name).collect(),
            };
            (name(&id), member)
        })
        .collect()
}
