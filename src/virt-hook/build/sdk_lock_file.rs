//! The versions that the SDK was tested with, as the `Cargo.lock` of a new project.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use crate::sdk_source_tree::ROOTS;

/// This workspace's lock, without what no hook can need. Cargo leaves out the rest when it first builds, and
/// enters the project.
pub(crate) fn of_sdk(tree: &Path) -> Result<String, Box<dyn Error>> {
    let mut lock = read(tree)?;
    let packages = packages(&lock)?;
    let mut reached = BTreeSet::new();
    let mut open = ROOTS.map(str::to_owned).to_vec();
    while let Some(name) = open.pop() {
        if reached.insert(name.clone()) {
            open.extend(packages.iter().filter(|one| is(one, &name)).flat_map(needs));
        }
    }
    let kept = packages.iter().filter(|one| reached.contains(named(one)));
    let kept: ArrayOfTables = kept.cloned().collect();
    lock.insert("package", Item::ArrayOfTables(kept));
    Ok(lock.to_string())
}

/// The version of a package that there is once.
pub(crate) fn version(tree: &Path, name: &str) -> Result<String, Box<dyn Error>> {
    let lock = read(tree)?;
    let mut packages = packages(&lock)?.iter();
    let package = packages.find(|one| is(one, name));
    let version = package.and_then(|one| one.get("version")?.as_str());
    Ok(version
        .ok_or_else(|| format!("Cargo.lock has no {name}"))?
        .to_owned())
}

fn read(tree: &Path) -> Result<DocumentMut, Box<dyn Error>> {
    let path = tree.join("Cargo.lock");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.parse()?)
}

fn packages(lock: &DocumentMut) -> Result<&ArrayOfTables, &'static str> {
    let packages = lock.get("package").and_then(Item::as_array_of_tables);
    packages.ok_or("Cargo.lock has no packages")
}

fn named(package: &Table) -> &str {
    package
        .get("name")
        .and_then(Item::as_str)
        .unwrap_or_default()
}

fn is(package: &Table, name: &str) -> bool {
    named(package) == name
}

/// Names; where there are several versions of one, all of them.
fn needs(package: &Table) -> Vec<String> {
    let list = package.get("dependencies").and_then(Item::as_array);
    let entries = list.into_iter().flatten().filter_map(|one| one.as_str());
    entries
        .filter_map(|entry| entry.split(' ').next())
        .map(str::to_owned)
        .collect()
}
