//! Finds the modules of the command line: files, directories with modules, and hooks directories.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

/// The settings beside a module.
pub(super) const SETTINGS: &str = "hook.yaml";

/// A module and the directory it would have in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookModule {
    /// The file.
    pub(crate) module: PathBuf,
    /// The hook's name in logs and errors.
    pub(crate) directory: String,
    /// Its `hook.yaml`, if it has one.
    pub(crate) settings: Option<PathBuf>,
}

impl HookModule {
    fn new(module: PathBuf, directory: String) -> Self {
        let settings = module.with_file_name(SETTINGS);
        Self {
            // Whatever has the name; what cannot be settings is refused when it is read.
            settings: settings.symlink_metadata().is_ok().then_some(settings),
            module,
            directory,
        }
    }
}

/// The modules that the paths name: a module, a directory with modules, or a hooks directory with one
/// sub-directory per hook.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<HookModule>> {
    let mut found = Vec::new();
    for path in paths {
        found.extend(find_in(path)?);
    }
    let names: BTreeSet<_> = found
        .iter()
        .map(|hook| (&hook.directory, hook.module.file_name()))
        .collect();
    if names.len() < found.len() {
        bail!("two hooks have the same name; put them into directories of different names");
    }
    Ok(found)
}

/// A module is named after its file, modules in a directory after the directory.
fn find_in(path: &Path) -> Result<Vec<HookModule>> {
    if !path.is_dir() {
        size(path)?;
        let directory = name(path.file_stem(), path)?;
        return Ok(vec![HookModule::new(path.to_owned(), directory)]);
    }
    let mut found = modules(path)?;
    if found.is_empty() {
        for directory in entries(path)?.into_iter().filter(|entry| entry.is_dir()) {
            found.extend(modules(&directory)?);
        }
    }
    if found.is_empty() {
        bail!(
            "{}: no *.wasm in it or in its sub-directories; gRPC sidecars need a running pod",
            path.display()
        );
    }
    Ok(found)
}

fn modules(directory: &Path) -> Result<Vec<HookModule>> {
    // `.` and `..` have names only after canonicalisation.
    let resolved = directory
        .canonicalize()
        .with_context(|| directory.display().to_string())?;
    let files = entries(directory)?
        .into_iter()
        .filter(|entry| entry.is_file() && is_module(entry));
    files
        .map(|module| {
            let directory = name(resolved.file_name(), directory)?;
            Ok(HookModule::new(module, directory))
        })
        .collect()
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn is_module(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("wasm"))
}

/// A hook's name without leading dots: the collection skips hidden names.
fn name(name: Option<&OsStr>, path: &Path) -> Result<String> {
    let name = name
        .and_then(OsStr::to_str)
        .map(|name| name.trim_start_matches('.'))
        .filter(|name| !name.is_empty());
    name.map(str::to_owned)
        .ok_or_else(|| anyhow!("{}: a hook cannot be named after this", path.display()))
}

/// Size of a module file in bytes.
pub(crate) fn size(path: &Path) -> Result<u64> {
    let named = || path.display().to_string();
    let metadata = fs::metadata(path).with_context(named)?;
    if metadata.is_dir() {
        bail!(
            "{}: it is a directory: name the module in it",
            path.display()
        );
    }
    if !metadata.is_file() {
        bail!("{}: it is no regular file", path.display());
    }
    File::open(path).with_context(named)?;
    Ok(metadata.len())
}
