//! The SDK as a separate source tree: hooks-sdk and the crates of this workspace that it depends on, at their paths in
//! this workspace, with a workspace manifest that has only what they inherit.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, TableLike};

use crate::embedded_files::EmbeddedFiles;

/// The files and directories of a crate that building it needs.
const CRATE_PARTS: [&str; 3] = ["src", "wit", "README.md"];
/// Keys of a crate's manifest that matter only for the development of this workspace.
const DEVELOPMENT_KEYS: [&str; 5] = ["dev-dependencies", "lints", "bench", "example", "test"];
/// Tables of the workspace's manifest from which crates inherit.
const INHERITED_TABLES: [&str; 2] = ["package", "dependencies"];

/// The crates that a project depends on: the SDK, and its support for tests in Rust.
pub(crate) const ROOT_CRATES: [&str; 2] = ["hooks-sdk", "hooks-sdk-testing"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Collects the source tree. The reduced manifests are written below `out_dir`.
pub(crate) fn collect(workspace_root: &Path, out_dir: &Path) -> Result<EmbeddedFiles> {
    let mut root = manifest(&workspace_root.join("Cargo.toml"))?;
    let mut embedded = EmbeddedFiles::default();
    let mut needed: BTreeSet<String> = ROOT_CRATES.map(str::to_owned).into();
    let mut members = Vec::new();
    let mut pending = ROOT_CRATES.map(str::to_owned).to_vec();
    while let Some(name) = pending.pop() {
        let Some(crate_path) = crate_directory(&root, &name) else {
            continue;
        };
        let member = without_development_keys(manifest(
            &workspace_root.join(&crate_path).join("Cargo.toml"),
        )?);
        let inherited = inherited_dependencies(member.as_table()).into_iter();
        pending.extend(inherited.filter(|name| needed.insert(name.clone())));
        add_crate(
            &mut embedded,
            &workspace_root.join(&crate_path),
            &crate_path,
            &member,
        )?;
        write(
            &mut embedded,
            out_dir,
            &crate_path.join("Cargo.toml"),
            &member,
        )?;
        members.push(crate_path);
    }
    remove_unneeded(&mut root, &needed, &members)?;
    write(&mut embedded, out_dir, Path::new("Cargo.toml"), &root)?;
    embedded.add(&workspace_root.join("LICENSE"), "LICENSE".into());
    let readme = workspace_root.join("src/virt-hook/build/sdk_readme.md");
    embedded.add(&readme, "README.md".into());
    embedded.watched.push(workspace_root.join("Cargo.toml"));
    embedded.watched.push(workspace_root.join("Cargo.lock"));
    Ok(embedded)
}

fn manifest(path: &Path) -> Result<DocumentMut> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let manifest = text.parse::<DocumentMut>();
    Ok(manifest.map_err(|error| format!("{}: {error}", path.display()))?)
}

/// The directory of a crate of this workspace; `None` for other crates.
fn crate_directory(root: &DocumentMut, name: &str) -> Option<PathBuf> {
    let dependency = root["workspace"]["dependencies"].get(name)?;
    dependency.get("path")?.as_str().map(PathBuf::from)
}

fn add_crate(
    embedded: &mut EmbeddedFiles,
    directory: &Path,
    crate_path: &Path,
    manifest: &DocumentMut,
) -> Result<()> {
    let has_build_script = match manifest["package"].get("build") {
        Some(build) => build.as_bool() != Some(false),
        None => directory.join("build.rs").is_file(),
    };
    if has_build_script {
        return Err(format!(
            "{} has a build script, and the SDK's copy has none: remove it, or add its files to CRATE_PARTS in \
             src/virt-hook/build/sdk_source_tree.rs",
            crate_path.display()
        )
        .into());
    }
    for part in CRATE_PARTS {
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

fn without_development_keys(mut member: DocumentMut) -> DocumentMut {
    fn remove_keys(table: &mut dyn TableLike) {
        for key in DEVELOPMENT_KEYS {
            table.remove(key);
        }
    }
    remove_keys(member.as_table_mut());
    if let Some(targets) = member.get_mut("target").and_then(Item::as_table_like_mut) {
        let tables = targets.iter_mut();
        tables
            .filter_map(|(_, item)| item.as_table_like_mut())
            .for_each(remove_keys);
    }
    member
}

/// The names of the dependencies that a manifest inherits from the workspace, also in nested tables.
fn inherited_dependencies(table: &dyn TableLike) -> Vec<String> {
    let mut names = Vec::new();
    for (key, item) in table.iter() {
        let Some(inner) = item.as_table_like() else {
            continue;
        };
        if inner.contains_key("workspace") {
            names.push(key.to_owned());
        } else {
            names.extend(inherited_dependencies(inner));
        }
    }
    names
}

/// Removes from the workspace's manifest everything that these members do not inherit.
fn remove_unneeded(
    root: &mut DocumentMut,
    needed: &BTreeSet<String>,
    members: &[PathBuf],
) -> Result<()> {
    let mut paths: Vec<_> = members
        .iter()
        .filter_map(|crate_path| crate_path.to_str())
        .collect();
    paths.sort_unstable();
    let workspace = root["workspace"]
        .as_table_mut()
        .ok_or("Cargo.toml has no [workspace]")?;
    workspace.retain(|key, _| INHERITED_TABLES.contains(&key) || key == "resolver");
    workspace.insert("members", Array::from_iter(paths).into());
    let dependencies = workspace["dependencies"].as_table_mut();
    let dependencies: &mut Table = dependencies.ok_or("no [workspace.dependencies]")?;
    dependencies.retain(|name, _| needed.contains(name));
    root.retain(|key, _| key == "workspace");
    Ok(())
}

fn write(
    embedded: &mut EmbeddedFiles,
    out_dir: &Path,
    embedded_path: &Path,
    manifest: &DocumentMut,
) -> Result<()> {
    let path = out_dir.join("sdk").join(embedded_path);
    fs::create_dir_all(path.parent().unwrap_or(out_dir))?;
    fs::write(&path, manifest.to_string())?;
    embedded.add(&path, embedded_path.to_owned());
    Ok(())
}
