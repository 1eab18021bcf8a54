//! The SDK as a source tree of its own: hooks-sdk and the crates of this workspace that it needs, each where
//! it lies here, below a workspace manifest with what they inherit.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

use crate::embedded_files::EmbeddedFiles;

/// Of a crate, what is needed to build it.
const PARTS: [&str; 5] = ["src", "wit", "proto", "build.rs", "README.md"];
/// Of a manifest, what is about this workspace's own work on a crate.
const OWN: [&str; 5] = ["dev-dependencies", "lints", "bench", "example", "test"];
/// Of the workspace's manifest, what crates inherit.
const INHERITED: [&str; 2] = ["package", "dependencies"];

/// What a project depends on: the SDK, and for tests in Rust its test support.
pub(crate) const ROOTS: [&str; 2] = ["hooks-sdk", "hooks-sdk-testing"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// All of it; manifests are written below `out` first.
pub(crate) fn embedded(tree: &Path, out: &Path) -> Result<EmbeddedFiles> {
    let mut root = manifest(&tree.join("Cargo.toml"))?;
    let mut embedded = EmbeddedFiles::default();
    let mut needed: BTreeSet<String> = ROOTS.map(str::to_owned).into();
    let mut members = Vec::new();
    let mut open = ROOTS.map(str::to_owned).to_vec();
    while let Some(name) = open.pop() {
        let Some(crate_path) = path_of(&root, &name) else {
            continue;
        };
        let member = without_own(manifest(&tree.join(&crate_path).join("Cargo.toml"))?);
        let fresh = inherited(member.as_table()).into_iter();
        open.extend(fresh.filter(|name| needed.insert(name.clone())));
        add_crate(&mut embedded, &tree.join(&crate_path), &crate_path)?;
        write(&mut embedded, out, &crate_path.join("Cargo.toml"), &member)?;
        members.push(crate_path);
    }
    reduce(&mut root, &needed, &members)?;
    write(&mut embedded, out, Path::new("Cargo.toml"), &root)?;
    embedded.add(&tree.join("LICENSE"), "LICENSE".into());
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("build/sdk_readme.md");
    embedded.add(&readme, "README.md".into());
    embedded.watched.push(tree.join("Cargo.toml"));
    embedded.watched.push(tree.join("Cargo.lock"));
    Ok(embedded)
}

fn manifest(path: &Path) -> Result<DocumentMut> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let read = text.parse::<DocumentMut>();
    Ok(read.map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Where a crate of this workspace lies; none for those of others.
fn path_of(root: &DocumentMut, name: &str) -> Option<PathBuf> {
    let dependency = root["workspace"]["dependencies"].get(name)?;
    dependency.get("path")?.as_str().map(PathBuf::from)
}

fn add_crate(embedded: &mut EmbeddedFiles, directory: &Path, crate_path: &Path) -> Result<()> {
    for part in PARTS {
        let source = directory.join(part);
        if source.is_dir() {
            embedded.add_below(&source, &crate_path.join(part))?;
        } else if source.is_file() {
            embedded.add(&source, crate_path.join(part));
            embedded.watched.push(source);
        }
    }
    embedded.watched.push(directory.join("Cargo.toml"));
    Ok(())
}

fn without_own(mut member: DocumentMut) -> DocumentMut {
    fn leave_out(table: &mut dyn TableLike) {
        for key in OWN {
            table.remove(key);
        }
    }
    leave_out(member.as_table_mut());
    if let Some(targets) = member.get_mut("target").and_then(Item::as_table_like_mut) {
        let tables = targets.iter_mut();
        tables
            .filter_map(|(_, item)| item.as_table_like_mut())
            .for_each(leave_out);
    }
    member
}

/// The dependencies that a manifest takes from the workspace's, at whatever depth they stand.
fn inherited(table: &dyn TableLike) -> Vec<String> {
    let mut names = Vec::new();
    for (key, item) in table.iter() {
        let Some(below) = item.as_table_like() else {
            continue;
        };
        if below.contains_key("workspace") {
            names.push(key.to_owned());
        } else {
            names.extend(inherited(below));
        }
    }
    names
}

/// Leaves of the workspace's manifest what these members inherit.
fn reduce(root: &mut DocumentMut, needed: &BTreeSet<String>, members: &[PathBuf]) -> Result<()> {
    let mut list: Vec<_> = members
        .iter()
        .filter_map(|crate_path| crate_path.to_str())
        .collect();
    list.sort_unstable();
    let workspace = root["workspace"]
        .as_table_mut()
        .ok_or("Cargo.toml has no [workspace]")?;
    workspace.retain(|key, _| INHERITED.contains(&key) || key == "resolver");
    workspace.insert("members", Array::from_iter(list).into());
    let dependencies = workspace["dependencies"].as_table_mut();
    let dependencies: &mut Table = dependencies.ok_or("no [workspace.dependencies]")?;
    dependencies.retain(|name, _| needed.contains(name));
    root.retain(|key, _| key == "workspace");
    Ok(())
}

fn write(
    embedded: &mut EmbeddedFiles,
    out: &Path,
    embedded_path: &Path,
    manifest: &DocumentMut,
) -> Result<()> {
    let path = out.join("sdk").join(embedded_path);
    fs::create_dir_all(path.parent().unwrap_or(out))?;
    fs::write(&path, manifest.to_string())?;
    embedded.add(&path, embedded_path.to_owned());
    Ok(())
}
