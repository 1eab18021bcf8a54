//! The versions that the SDK was tested with, as the `Cargo.lock` of a new project.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use crate::sdk_source_tree::ROOT_CRATES;

/// This workspace's lock file, reduced to the packages that the SDK reaches. Cargo's first build removes those that the
/// project does not use, and adds the project.
pub(crate) fn reduced_to_sdk(workspace_root: &Path) -> Result<String, Box<dyn Error>> {
    let mut lock = read(workspace_root)?;
    let packages = packages(&lock)?;
    let mut reached = BTreeSet::new();
    let mut pending = ROOT_CRATES.map(str::to_owned).to_vec();
    while let Some(name) = pending.pop() {
        if reached.insert(name.clone()) {
            pending.extend(
                packages
                    .iter()
                    .filter(|package| has_name(package, &name))
                    .flat_map(dependencies),
            );
        }
    }
    let kept = packages
        .iter()
        .filter(|package| reached.contains(package_name(package)));
    let kept: ArrayOfTables = kept.cloned().collect();
    lock.insert("package", Item::ArrayOfTables(kept));
    Ok(lock.to_string())
}

/// The version of a package that the lock file has once.
pub(crate) fn package_version(workspace_root: &Path, name: &str) -> Result<String, Box<dyn Error>> {
    let lock = read(workspace_root)?;
    let mut packages = packages(&lock)?.iter();
    let package = packages.find(|package| has_name(package, name));
    let version = package.and_then(|package| package.get("version")?.as_str());
    Ok(version
        .ok_or_else(|| format!("Cargo.lock has no {name}"))?
        .to_owned())
}

fn read(workspace_root: &Path) -> Result<DocumentMut, Box<dyn Error>> {
    let path = workspace_root.join("Cargo.lock");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.parse()?)
}

fn packages(lock: &DocumentMut) -> Result<&ArrayOfTables, &'static str> {
    let packages = lock.get("package").and_then(Item::as_array_of_tables);
    packages.ok_or("Cargo.lock has no packages")
}

fn package_name(package: &Table) -> &str {
    package
        .get("name")
        .and_then(Item::as_str)
        .unwrap_or_default()
}

fn has_name(package: &Table, name: &str) -> bool {
    package_name(package) == name
}

/// The names of the packages that a package depends on, without their versions.
fn dependencies(package: &Table) -> Vec<String> {
    let list = package.get("dependencies").and_then(Item::as_array);
    let entries = list
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.as_str());
    entries
        .filter_map(|entry| entry.split(' ').next())
        .map(str::to_owned)
        .collect()
}
